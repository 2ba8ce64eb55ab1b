# packaging/build_deb.sh runs this file: the packages are built in one Debian and tried in another one.

FROM debian:12 AS build
COPY build/deb /deb
WORKDIR /deb/tutti
RUN apt-get update && apt-get install -y --no-install-recommends build-essential lintian
RUN apt-get build-dep -y --no-install-recommends ./
RUN dpkg-buildpackage -us -uc -Jauto
RUN lintian --allow-root --info --fail-on error ../*.changes
RUN rm -r /deb/tutti

FROM debian:12-slim
COPY --from=build /deb /deb
WORKDIR /deb
RUN apt-get update && apt-get install -y --no-install-recommends /deb/*.deb
RUN apt-get install -y --no-install-recommends autopkgtest cmake dpkg-dev g++ pkgconf python3-numpy
CMD ["/bin/sh", "-c", "autopkgtest tutti_*.dsc -B -- null"]
