# Core SRL with what training needs, on a CPU or, with torch's own CUDA, on NVIDIA's GPUs:
#   docker build -t core-srl . && docker run --rm -it -v "$PWD/runs:/app/runs" core-srl train examples/configs/demo.yaml --out runs/demo
FROM python:3.11-slim-bookworm

# libseccomp is the sandbox's filter of system calls, for programs that models wrote.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends libseccomp2 \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 1000 srl

WORKDIR /app
COPY pyproject.toml README.md LICENSE constraints.txt ./
COPY srl_envs srl_envs
COPY srl_agents srl_agents
COPY srl_train srl_train
COPY srl_extensions srl_extensions
COPY core_srl core_srl
RUN pip install --no-cache-dir -c constraints.txt ".[train,render,plots,tasks,sandbox]"
COPY examples examples
RUN mkdir runs && chown 1000 runs

USER 1000
ENV OMP_NUM_THREADS=1
ENTRYPOINT ["srl"]
CMD ["doctor"]
