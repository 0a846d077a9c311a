# SPDX-License-Identifier: Apache-2.0
# The suite without a ROS installation.
#   docker build -t motion_nodes .
#   docker run --rm -it --network host motion_nodes motion up franka
FROM python:3.11-slim-bookworm
RUN apt-get update && apt-get install -y --no-install-recommends g++ make git \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /opt/motion_nodes
COPY . .
RUN python -m venv /opt/venv \
    && /opt/venv/bin/pip install --no-cache-dir -c requirements/constraints.txt ".[ros,policy]" \
    && /opt/venv/bin/motion setup
ENV PATH=/opt/venv/bin:$PATH VIRTUAL_ENV=/opt/venv ROS_LOG_DIR=/tmp/ros_log
WORKDIR /root
CMD ["motion", "doctor"]
