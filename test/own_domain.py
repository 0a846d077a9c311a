# SPDX-License-Identifier: Apache-2.0
"""A ROS domain and an environment for this test run only, set when this module is imported.

Not in conftest.py, which pytest imports under another name: a second import would choose a second
domain.
"""

import atexit
import fcntl
import os
import random
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import IO

from motion_nodes.ros.transports import choose_transports

DOMAINS = range(64, 102)
"""Domains of tests. Only 0 to 101 are safe with Linux's ephemeral ports; people and examples choose
small numbers, and may start a suite while tests run."""


def has_a_suite(domain: int) -> bool:
    """Return whether a node of a suite runs in a domain, by the locks on nodes' names."""
    folder = Path(tempfile.gettempdir()) / f"motion_nodes-{os.getuid()}"
    for path in folder.glob(f"{domain}.*.lock"):
        try:
            with path.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:
            continue
        except OSError:
            return True
    return False


def _own_domain() -> tuple[int, IO[str]]:
    """Return a ROS domain that no other test run or suite on this machine uses, and its lock."""
    folder = Path(tempfile.gettempdir()) / f"motion_nodes-test-domains-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    domains = list(DOMAINS)
    random.SystemRandom().shuffle(domains)
    for domain in domains:
        if has_a_suite(domain):
            continue
        file = (folder / str(domain)).open("a")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            continue
        return domain, file
    raise RuntimeError(f"all ROS domains from {DOMAINS[0]} to {DOMAINS[-1]} are in use")


_DOMAIN, _DOMAIN_LOCK = _own_domain()
os.environ["ROS_DOMAIN_ID"] = str(_DOMAIN)
os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"
choose_transports(images=False)  # of clients, too: killed processes must not disturb other tests
os.environ["ROS_LOG_DIR"] = tempfile.mkdtemp(prefix="motion_nodes-test-log-")
atexit.register(shutil.rmtree, os.environ["ROS_LOG_DIR"], ignore_errors=True)
os.environ["RCUTILS_COLORIZED_OUTPUT"] = "0"
# Python caches bytecode: hundreds of processes are started here.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Shells make background processes ignore SIGINT, which children would inherit.
    signal.signal(signal.SIGINT, signal.default_int_handler)
os.environ.pop("MOTION_NODES_ROBOT_PATH", None)

ENVIRONMENT = dict(os.environ)
"""Environment of started processes: with the user's kernel cache, whatever a test changes."""
