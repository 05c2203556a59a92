# payonce and pspsim, and nothing else: `make image` builds them for it first,
# so that no other image is needed.
FROM scratch
# A volume that is mounted here belongs to the user.
COPY --chown=65532:65532 bin/image/data /data
COPY bin/image/payonce bin/image/pspsim /
USER 65532:65532
WORKDIR /data
EXPOSE 8080
ENV PAYONCE_LISTEN=0.0.0.0:8080
ENTRYPOINT ["/payonce"]
CMD ["serve"]
