"""Turns text into vectors: one file an embedder, found by the name of its entry point.

    bundled   onnx.py      all-MiniLM-L6-v2, whose weights are a package: offline, English
    onnx      onnx.py      any sentence embedder that lies in a folder
    ollama    ollama.py    an Ollama server
    openai    openai.py    any server that speaks OpenAI's `/embeddings`
    hashing   hashing.py   the same words, the same place: for tests

Each opener takes the settings that stand beside `provider` and raises pydantic's ValidationError where they are wrong;
it reads no file and opens no connection, `Embedder.open` does.
"""
