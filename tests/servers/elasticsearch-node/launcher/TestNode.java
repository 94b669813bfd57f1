import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CountDownLatch;

import org.elasticsearch.common.logging.LogConfigurator;
import org.elasticsearch.common.settings.Settings;
import org.elasticsearch.env.Environment;
import org.elasticsearch.node.InternalSettingsPreparer;
import org.elasticsearch.node.Node;
import org.elasticsearch.plugins.PluginBundle;
import org.elasticsearch.plugins.PluginsLoader;

/**
 * Runs one node until SIGTERM. Arguments: the home folder, and the id of the process that owns the node.
 *
 * <p>The node watches its owner rather than trusting it to say goodbye: a test run that is killed outright would otherwise
 * leave a server and its data behind.
 */
public final class TestNode {
    private TestNode() {}

    public static void main(String[] arguments) throws Exception {
        Path home = Path.of(arguments[0]).toRealPath();
        dieWith(ProcessHandle.of(Long.parseLong(arguments[1])).orElse(null), home);

        LogConfigurator.configureESLogging(); // before the first class that logs is loaded
        System.setProperty("es.path.home", home.toString());
        Environment environment = InternalSettingsPreparer.prepareEnvironment(
            Settings.builder().put(Environment.PATH_HOME_SETTING.getKey(), home).build(), Map.of(), home.resolve("config"), () -> "test");
        LogConfigurator.configureWithoutConfig(environment.settings());

        Set<PluginBundle> modules = PluginsLoader.loadModulesBundles(environment.modulesDir(), false);
        Node node = new Node(environment, PluginsLoader.createPluginsLoader(modules, Set.of(), Map.of()));
        CountDownLatch closed = new CountDownLatch(1);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            try (node) {
                closed.countDown();
            } catch (IOException error) {
                error.printStackTrace();
            }
        }, "close-node"));
        node.start();
        closed.await();
    }

    private static void dieWith(ProcessHandle owner, Path home) {
        if (owner == null) {
            Runtime.getRuntime().halt(1); // gone before the node had started
            return;
        }
        owner.onExit().thenRun(() -> {
            deleteRecursively(home);
            Runtime.getRuntime().halt(1);
        });
    }

    private static void deleteRecursively(Path folder) {
        try (var paths = Files.walk(folder)) { // does not follow the link to the modules
            paths.sorted(Comparator.reverseOrder()).forEach(path -> path.toFile().delete());
        } catch (IOException | RuntimeException error) {
            System.err.println("could not delete " + folder + ": " + error);
        }
    }
}
