"""Talks to `orrery sim step`, a process that runs the episodes.

Its first line of output is JSON: the fields of a block with their shapes. Then each request, two 64-bit numbers for each
environment, is answered with a block of 32-bit floats for each environment. All numbers are little-endian.
"""

import json
import os
import shutil
import subprocess
import tempfile

import numpy as np

STEP, RESET, SKIP = 0, 1, 2

# Version of the description that this package reads.
VERSION = 1


class OrreryError(RuntimeError):
    """The program `orrery` is missing, has refused the study or has ended."""


def program(path=None):
    """Returns the path of the program: the one given, that of the variable ORRERY, or the one in PATH."""
    wanted = path or os.environ.get("ORRERY") or "orrery"
    found = shutil.which(wanted)
    if found is None:
        raise OrreryError(f"{wanted}: no such program; set ORRERY to the path of orrery, or put it into PATH")
    return found


class Layout:
    """The fields of a block, and what their numbers mean."""

    def __init__(self, description):
        if description["version"] != VERSION:
            raise OrreryError(f"orrery speaks version {description['version']}, and orrery_gym version {VERSION}")
        self.nodes = description["nodes"]
        self.resources = description["resources"]
        self.scales = np.array(description["scales"])
        self.queue = description["queue"]
        self.metrics = description["metrics"]
        self.fields, at = {}, 0
        for field in description["fields"]:
            size = int(np.prod(field["shape"], dtype=int))
            self.fields[field["name"]] = (slice(at, at + size), tuple(field["shape"]))
            at += size
        self.size = at

    def read(self, blocks, name):
        """Returns a field of blocks with shape (n, size); a field with a shape of its own keeps it behind n."""
        where, shape = self.fields[name]
        return blocks[:, where].reshape((len(blocks), *shape))


class Process:
    """One process with one or several environments."""

    def __init__(self, study, environments=1, orrery=None, **choice):
        command = [program(orrery), "sim", "step", os.fspath(study), "--environments", str(environments)]
        for name, value in choice.items():
            if value is not None:
                command += [f"--{name}", value]
        # A file never fills up, so the process never waits for a reader of its errors.
        self._errors = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, bufsize=0
        )
        self.environments = environments
        line = bytearray()
        while not line.endswith(b"\n"):
            byte = self._process.stdout.read(1)
            if not byte:
                self._fail()
            line += byte
        self.layout = Layout(json.loads(line))

    def send(self, commands):
        """Sends a request: an array of shape (environments, 2) with operations and values."""
        if self._process is None:
            raise OrreryError("the environment is closed")
        request = memoryview(np.ascontiguousarray(commands, dtype="<i8")).cast("B")
        try:
            while request:
                request = request[self._process.stdin.write(request) :]
        except BrokenPipeError:
            self._fail()

    def receive(self):
        """Returns the answer to the oldest request: an array of shape (environments, numbers of a block)."""
        blocks = np.empty((self.environments, self.layout.size), dtype="<f4")
        rest = memoryview(blocks).cast("B")
        while rest:
            count = self._process.stdout.readinto(rest)
            if not count:
                self._fail()
            rest = rest[count:]
        return blocks

    def close(self):
        """Ends the process: it ends by itself when nobody can ask it any more."""
        if self._process is None:
            return
        process, self._process = self._process, None
        process.stdin.close()
        process.stdout.close()
        process.wait()
        self._errors.close()

    def _fail(self):
        """Raises what the process has said before it ended."""
        process, self._process = self._process, None
        process.stdin.close()
        process.stdout.close()
        status = process.wait()
        self._errors.seek(0)
        said = self._errors.read().decode(errors="replace").strip()
        self._errors.close()
        raise OrreryError(said or f"orrery has ended with status {status}")

    def __del__(self):
        # An object whose making failed has no process.
        if getattr(self, "_process", None) is not None:
            self.close()
