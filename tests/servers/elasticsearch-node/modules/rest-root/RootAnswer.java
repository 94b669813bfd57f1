package knowledgestore.testnode;

import java.io.IOException;
import java.util.Collection;
import java.util.List;
import java.util.function.Predicate;
import java.util.function.Supplier;

import org.elasticsearch.Build;
import org.elasticsearch.client.internal.node.NodeClient;
import org.elasticsearch.cluster.node.DiscoveryNodes;
import org.elasticsearch.features.NodeFeature;
import org.elasticsearch.plugins.ActionPlugin;
import org.elasticsearch.plugins.Plugin;
import org.elasticsearch.rest.BaseRestHandler;
import org.elasticsearch.rest.RestHandler;
import org.elasticsearch.rest.RestRequest;
import org.elasticsearch.rest.RestResponse;
import org.elasticsearch.rest.RestStatus;

/** Answers `GET /` and `HEAD /` as the distribution's unpublished module rest-root does: clients read the version there. */
public final class RootAnswer extends Plugin implements ActionPlugin {
    @Override
    public Collection<RestHandler> getRestHandlers(
        RestHandlersServices services, Supplier<DiscoveryNodes> nodes, Predicate<NodeFeature> supports) {
        return List.of(new Handler(nodes));
    }

    private static final class Handler extends BaseRestHandler {
        private final Supplier<DiscoveryNodes> nodes;

        Handler(Supplier<DiscoveryNodes> nodes) {
            this.nodes = nodes;
        }

        @Override
        public String getName() {
            return "main_action";
        }

        @Override
        public List<Route> routes() {
            return List.of(new Route(RestRequest.Method.GET, "/"), new Route(RestRequest.Method.HEAD, "/"));
        }

        @Override
        protected RestChannelConsumer prepareRequest(RestRequest request, NodeClient client) throws IOException {
            return channel -> {
                Build build = Build.current();
                var body = channel.newBuilder();
                body.startObject();
                body.field("name", nodes.get().getLocalNode().getName());
                body.startObject("version");
                body.field("number", build.version());
                body.field("build_flavor", build.flavor());
                body.field("build_hash", build.hash());
                body.endObject();
                body.field("tagline", "You Know, for Search");
                body.endObject();
                channel.sendResponse(new RestResponse(RestStatus.OK, body));
            };
        }
    }
}
