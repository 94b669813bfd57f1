"""Assembles a real Elasticsearch server from its published artifacts, once per version of the recipe.

    find a JDK -> fetch the jars (Maven) -> compile launcher and stand-in modules -> move the whole into the cache

The recipe is the folder `elasticsearch-node` beside this file. All working copies of the project on the machine share
the result; its folder name carries a hash of the recipe, so a changed recipe never meets an old result.
"""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

RECIPE: Final = Path(__file__).parent / "elasticsearch-node"
MIN_JDK: Final = 21
ASSEMBLY_TIMEOUT_S: Final = 10 * 60  # a first run downloads about 45 MB of jars
REMEDY: Final = (
    "Give KNOWLEDGE_TEST_ELASTICSEARCH_URL, start Docker, or install `mvn` and a JDK 21 or newer (JAVA_HOME)."
)


class ServerUnavailableError(Exception):
    """No Elasticsearch is to be had on this machine; the message says why."""


@dataclass(frozen=True)
class Module:
    """One server module: a folder of `modules/`, what starts it, and which of the fetched jars move into it."""

    name: str
    plugin_class: str
    jars: tuple[str, ...] = ()


MODULES: Final = (
    Module(
        "transport-netty4", "org.elasticsearch.transport.netty4.Netty4Plugin", ("transport-netty4-*.jar", "netty-*.jar")
    ),
    Module("analysis-common", "knowledgestore.testnode.AnalysisPieces"),
    Module("rest-root", "knowledgestore.testnode.RootAnswer"),
)


@dataclass(frozen=True)
class Assembly:
    """A server ready to start: `lib` is its module path, `launcher.jar` its class path, each home links `modules`."""

    folder: Path
    jdk: Path

    def command(self, home: Path, *, owner_pid: int, heap_mib: int, short_lived: bool) -> list[str]:
        return [
            str(self.jdk / "bin" / "java"),
            f"-Xms{heap_mib}m",
            f"-Xmx{heap_mib}m",
            "-XX:+UseSerialGC",  # several nodes share two cores with the tests: fewer threads, quicker start
            # the second compiler pays off after some 10 s of load; without it a start takes a quarter less time
            *(["-XX:TieredStopAtLevel=1"] if short_lived else []),
            f"-XX:ErrorFile={home / 'jvm-error.log'}",
            f"--module-path={self.folder / 'lib'}",
            "--add-modules=ALL-MODULE-PATH,jdk.incubator.vector",
            "--enable-native-access=org.elasticsearch.nativeaccess,org.apache.lucene.core",
            f"-Djava.io.tmpdir={home / 'tmp'}",
            "-cp",
            str(self.folder / "launcher.jar"),
            "TestNode",
            str(home),
            str(owner_pid),
        ]


def assembled() -> Assembly:
    """The assembly of the present recipe, made now where it is missing. Raises ServerUnavailableError."""
    jdk = find_jdk()
    folder = _cache() / f"elasticsearch-node-{elasticsearch_version()}-{_recipe_hash()}"
    if not folder.exists():
        with _only_one_process(folder.parent / "elasticsearch-node.lock"):
            if not folder.exists():  # another process may have made it while this one waited
                _assemble(folder, jdk)
    return Assembly(folder, jdk)


def elasticsearch_version() -> str:
    found = re.search(r"<elasticsearch\.version>([\d.]+)<", (RECIPE / "pom.xml").read_text("utf-8"))
    assert found, "pom.xml names no elasticsearch.version"
    return found[1]


def find_jdk() -> Path:
    """JAVA_HOME, the JDK of the `javac` on the path, then what system packages install, newest first."""
    compiler = shutil.which("javac")
    installed = sorted(Path("/usr/lib/jvm").glob("*"), key=_jdk_version, reverse=True)
    named = [Path(os.environ["JAVA_HOME"])] if os.environ.get("JAVA_HOME") else []
    on_path = [Path(compiler).resolve().parents[1]] if compiler else []
    for home in [*named, *on_path, *installed]:
        if _jdk_version(home) >= MIN_JDK:
            return home
    raise ServerUnavailableError(f"there is no JDK {MIN_JDK} or newer to run a node. {REMEDY}")


def _jdk_version(home: Path) -> int:
    # every JDK states its version in this file: reading it costs nothing, starting a JVM half a second
    release = home / "release"
    if not (release.is_file() and (home / "bin" / "javac").exists()):
        return 0
    found = re.search(r'^JAVA_VERSION="(\d+)', release.read_text("utf-8"), re.MULTILINE)
    return int(found[1]) if found else 0


def _cache() -> Path:
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = base / "knowledge-store"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _recipe_hash() -> str:
    digest = hashlib.sha256()
    for path in sorted([*RECIPE.rglob("*.java"), RECIPE / "pom.xml", Path(__file__)]):
        digest.update(path.name.encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


@contextmanager
def _only_one_process(lock: Path) -> Iterator[None]:
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # the kernel drops it with the process, so no stale lock can remain
        yield


def _assemble(folder: Path, jdk: Path) -> None:
    if not shutil.which("mvn"):
        raise ServerUnavailableError(f"`mvn`, which fetches the server's jars, is not installed. {REMEDY}")
    for left_behind in folder.parent.glob("assembling-*"):  # by a process that was killed: this one holds the lock
        shutil.rmtree(left_behind, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix="assembling-", dir=folder.parent) as temporary:
        work = Path(temporary) / "node"
        lib = work / "lib"
        lib.mkdir(parents=True)
        _run("mvn", "-q", "-B", "-f", RECIPE / "pom.xml", "prepare-package", f"-Dassembly.lib={lib}")
        _compile(jdk, RECIPE / "launcher", lib, work / "launcher.jar")
        for module in MODULES:
            _lay_module(module, jdk, lib, work / "modules" / module.name)
        work.rename(folder)  # last, and whole: a folder that exists is complete


def _lay_module(module: Module, jdk: Path, lib: Path, folder: Path) -> None:
    folder.mkdir(parents=True)
    version = elasticsearch_version()
    descriptor = {
        "name": module.name,
        "description": module.name,
        "classname": module.plugin_class,
        "version": version,
        "elasticsearch.version": version,
        "java.version": MIN_JDK,
    }
    (folder / "plugin-descriptor.properties").write_text("".join(f"{k}={v}\n" for k, v in descriptor.items()), "utf-8")
    for pattern in module.jars:
        for jar in lib.glob(pattern):
            jar.rename(folder / jar.name)
    if not module.jars:
        _compile(jdk, RECIPE / "modules" / module.name, lib, folder / f"{module.name}.jar")


def _compile(jdk: Path, sources: Path, lib: Path, jar: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="classes-") as classes:
        javac = (jdk / "bin" / "javac", "-nowarn", "--release", MIN_JDK)
        _run(*javac, "-cp", f"{lib}/*", "-d", classes, *sorted(sources.glob("*.java")))
        _run(jdk / "bin" / "jar", "--create", "--file", jar, "-C", classes, ".")


def _run(*command: object) -> None:
    done = subprocess.run(
        [str(part) for part in command],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=ASSEMBLY_TIMEOUT_S,
        check=False,
    )
    if done.returncode:
        tail = (done.stdout + done.stderr)[-2000:]
        raise ServerUnavailableError(f"assembling a node failed at `{command[0]}`:\n{tail}\n{REMEDY}")
