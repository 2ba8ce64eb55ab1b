# docker build -t tutti .                    an image with tutti for Python, for the manifests in examples/clusters
# docker run --rm tutti                      every operation once, on 4 processes
# docker build -t tutti-demo --target demo . && docker run --rm tutti-demo        ./dev demo

FROM debian:12 AS sources
COPY . /tutti
WORKDIR /tutti
RUN ./dev deps core

FROM sources AS demo
RUN ./dev build release tuttirun 10_every_operation digits_training
CMD ["./dev", "demo"]

FROM sources AS wheel
RUN apt-get install -y --no-install-recommends python3-dev python3-venv && python3 tools/build_wheels.py --folder /wheels python3

FROM debian:12-slim
RUN apt-get update && apt-get install -y --no-install-recommends libstdc++6 python3 python3-venv && rm -rf /var/lib/apt/lists/*
COPY --from=wheel /wheels /wheels
RUN python3 -m venv /opt/tutti && /opt/tutti/bin/pip install --no-cache-dir numpy /wheels/*.whl
COPY examples/python /examples
ENV PATH=/opt/tutti/bin:/usr/local/bin:/usr/bin:/bin
CMD ["tuttirun", "--nproc-per-node", "4", "/examples/10_every_operation.py"]
