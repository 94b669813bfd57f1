# The service as an image: `docker build -t knowledge-store .`

FROM python:3.13-slim AS wheels
WORKDIR /src
COPY constraints.txt .
COPY index_templates index_templates
COPY sdk sdk
COPY connectors connectors
COPY service service
RUN pip wheel --no-cache-dir --constraint constraints.txt --wheel-dir /wheels ./sdk ./connectors "./service[minilm]"

FROM python:3.13-slim
LABEL org.opencontainers.image.title="knowledge-store" org.opencontainers.image.licenses="Apache-2.0"
# an unprivileged user with a fixed id, so that the owner of a mounted folder can be set to it
RUN useradd --system --uid 10001 --create-home --home-dir /var/lib/knowledge-store knowledge
RUN --mount=type=bind,from=wheels,source=/wheels,target=/wheels \
    pip install --no-cache-dir --no-index --find-links=/wheels "knowledge-store[minilm]"
COPY docs /usr/share/doc/knowledge-store
COPY LICENSE /usr/share/doc/knowledge-store/LICENSE

USER knowledge
WORKDIR /var/lib/knowledge-store
# The embedded store and a ./knowledge.yaml live here. The address stays the loopback one by default: opening it takes
# KNOWLEDGE_HTTP__HOST and, as anywhere, at least one key.
VOLUME /var/lib/knowledge-store
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=3s --start-period=60s --retries=3 \
    CMD ["python", "-c", "import os, urllib.request; urllib.request.urlopen('http://127.0.0.1:' + os.environ.get('KNOWLEDGE_HTTP__PORT', '8080') + '/health', timeout=2)"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["knowledge-store"]
CMD ["serve"]
