# SPDX-License-Identifier: Apache-2.0
"""Networks of policies on the CPU: ONNX by ONNX Runtime, TorchScript where torch is installed.

Files are never unpickled: checkpoints of torch (``torch.save``) are rejected by their content.

Actuator networks compute joint efforts from position errors and velocities, learned from hardware.
The LSTM of ANYmal C has the inputs (position error, velocity) of each joint and a state; the MLP
has the last values of both, scaled. Source: Isaac Lab's ActuatorNetLSTM and ActuatorNetMLP; J.
Hwangbo et al., Learning agile and dynamic motor skills for legged robots, 2019.
"""

from __future__ import annotations

import importlib.util
import zipfile
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from motion_nodes.errors import InvalidCommand, InvalidDescription, MotionError
from motion_nodes.settings import check_settings, setting
from motion_nodes.typing import Array

MAX_SIZE = 1_000_000_000
"""Max size of a file [bytes]."""
OBSERVATION_NAMES = ("obs", "observation", "observations", "input", "policy", "onnx::Gemm_0")
"""Names of the input with the observation, among several; else it is the first."""


class NetworkFault(MotionError, RuntimeError):
    """A network that failed while it ran."""


class PolicyNetwork(Protocol):
    """Maps an observation to an action; may have a state, as recurrent networks do."""

    def __call__(self, observation: Array) -> Array:
        """Return the action, shape (m,), for an observation, shape (n,); advances the state.

        Raises:
            NetworkFault: the network failed.
        """

    def reset(self) -> None:
        """Reset the state to zero."""

    @property
    def metadata(self) -> Mapping[str, str]:
        """Entries that the file's author added."""


class OnnxModel:
    """A model of an ONNX file, run by ONNX Runtime in the calling thread, with its states."""

    def __init__(self, file: Path, batch: int = 1) -> None:
        """Load the file.

        Args:
            file: the file.
            batch: length of dynamic dimensions.

        Raises:
            InvalidDescription: not an ONNX model, unsupported inputs, or ONNX Runtime is not
                installed.
        """
        content = _content(file)
        try:
            import onnxruntime
        except ImportError:
            raise InvalidDescription(
                f"{file}: ONNX Runtime is not installed: pip install 'motion_nodes[policy]'"
            ) from None
        options = onnxruntime.SessionOptions()
        # One thread: networks are small, and worker threads would compete with control loops.
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 4
        try:
            # From memory, so that the model cannot refer to other files.
            self._session = onnxruntime.InferenceSession(
                content, options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # its errors have no common base class
            raise InvalidDescription(f"{file}: unusable ONNX model: {_line(error)}") from None
        inputs, outputs = list(self._session.get_inputs()), list(self._session.get_outputs())
        if not inputs:
            raise InvalidDescription(f"{file}: has no input for the observation.")
        chosen = next((i for i in inputs if i.name in OBSERVATION_NAMES), inputs[0])
        inputs.remove(chosen)
        for value in (chosen, *inputs, *outputs):
            if value.type != "tensor(float)":
                raise InvalidDescription(f"{file}: '{value.name}' is {value.type}, not float32.")
        self._name = chosen.name
        self.input_rank = len(chosen.shape)
        """Number of dimensions of the input."""
        self.input_width = _width(chosen.shape)
        """Last dimension of the input; None: not fixed by the file."""
        self.metadata: Mapping[str, str] = dict(self._session.get_modelmeta().custom_metadata_map)
        """Entries that the file's author added."""
        self._states = [(i.name, _state_shape(i, batch, file)) for i in inputs]
        self._outputs = [output.name for output in outputs[: 1 + len(inputs)]]
        if len(self._outputs) != 1 + len(inputs):
            raise InvalidDescription(
                f"{file}: has {len(inputs)} inputs in addition to the observation ("
                f"{', '.join(i.name for i in inputs)}), but {len(outputs) - 1} outputs with their "
                "next values."
            )
        self.reset()

    def run(self, values: Array) -> Array:
        """Return the first output, for an input of the file's shape; advance the states.

        Raises:
            NetworkFault: the model failed.
        """
        feed = {self._name: values.astype(np.float32), **self._state}
        try:
            out = self._session.run(self._outputs, feed)
        except Exception as error:
            raise NetworkFault(f"the network failed: {_line(error)}") from None
        for (name, _), value in zip(self._states, out[1:], strict=True):
            self._state[name] = value
        return np.asarray(out[0], dtype=np.float64)

    def reset(self) -> None:
        """Reset the states of a recurrent network to zero."""
        self._state = {name: np.zeros(shape, np.float32) for name, shape in self._states}


class OnnxNetwork(OnnxModel):
    """The network of a policy in an ONNX file."""

    def __call__(self, observation: Array) -> Array:
        """Return the action; see :class:`PolicyNetwork`."""
        return self.run(observation if self.input_rank == 1 else observation[None, :]).reshape(-1)


class TorchScriptNetwork:
    """A network of a TorchScript file, for machines with torch."""

    def __init__(self, file: Path) -> None:
        """Load the file.

        Raises:
            InvalidDescription: not TorchScript, or torch is not installed.
        """
        _check_torch_script(file)
        if importlib.util.find_spec("torch") is None:
            raise InvalidDescription(
                f"{file}: is TorchScript, and torch is not installed. Export the policy as ONNX."
            )
        self._torch: Any = importlib.import_module("torch")
        self._torch.set_num_threads(1)
        try:
            self._module = self._torch.jit.load(str(file), map_location="cpu").eval()
        except Exception as error:
            raise InvalidDescription(f"{file}: unusable TorchScript: {_line(error)}") from None
        self.metadata: Mapping[str, str] = {}

    def __call__(self, observation: Array) -> Array:
        """Return the action; see :class:`PolicyNetwork`."""
        x = self._torch.from_numpy(observation.astype(np.float32))[None, :]
        try:
            with self._torch.no_grad():
                out = self._module(x).numpy()
        except Exception as error:
            raise NetworkFault(f"the network failed: {_line(error)}") from None
        return np.asarray(out, dtype=np.float64).reshape(-1)

    def reset(self) -> None:
        """Reset the state, where the module has one."""
        if hasattr(self._module, "reset"):
            self._module.reset()


def load_network(file: str | Path) -> OnnxNetwork | TorchScriptNetwork:
    """Load the network of a policy by the suffix of its file: .onnx, or .pt and .jit.

    Raises:
        InvalidDescription: no such file, another suffix, or not such a network.
    """
    path = Path(file)
    if path.suffix in (".pt", ".pth", ".jit"):
        return TorchScriptNetwork(path)
    if path.suffix != ".onnx":
        raise InvalidDescription(
            f"{path}: the network of a policy is a file .onnx (or TorchScript, .pt); pickled "
            "files are never loaded."
        )
    return OnnxNetwork(path)


def check_widths(network: PolicyNetwork, inputs: int, outputs: int, file: str) -> None:
    """Check that a network matches its description, by its file and an inference on zeros.

    Args:
        network: the network; its state is reset.
        inputs: number of observations of the description.
        outputs: number of actions of the description.
        file: for errors.

    Raises:
        InvalidDescription: other widths.
    """
    declared = getattr(network, "input_width", None)
    if declared is not None and declared != inputs:
        raise InvalidDescription(
            f"{file}: the network has {declared} inputs, its description gives {inputs} "
            "observations.",
            field="observations",
        )
    network.reset()
    try:
        actions = network(np.zeros(inputs))
    except NetworkFault as error:
        raise InvalidDescription(
            f"{file}: the network does not accept the {inputs} observations of its description: "
            f"{error}"
        ) from None
    if actions.shape != (outputs,):
        raise InvalidDescription(
            f"{file}: the network has {actions.size} outputs, its description gives {outputs} "
            "actions.",
            field="actions",
        )
    network.reset()


def _content(file: Path) -> bytes:
    """Return the content of a network file, after checks of size and format."""
    try:
        size = file.stat().st_size
        if size > MAX_SIZE:
            raise InvalidDescription(f"{file}: has {size} bytes; at most {MAX_SIZE} are read.")
        content = file.read_bytes()
    except OSError as error:
        raise InvalidDescription(f"{file}: cannot be read: {error.strerror}.") from None
    if content[:1] == b"\x80" or content[:2] == b"PK":
        raise InvalidDescription(
            f"{file}: is a pickle or a checkpoint of torch, not an ONNX model; such files can "
            "execute code and are never loaded. Export the policy as ONNX."
        )
    return content


def _check_torch_script(file: Path) -> None:
    """Reject a checkpoint: a zip file without the code of a scripted module."""
    try:
        with zipfile.ZipFile(file) as archive:
            scripted = any("/code/" in name for name in archive.namelist())
    except OSError as error:
        raise InvalidDescription(f"{file}: cannot be read: {error.strerror}.") from None
    except zipfile.BadZipFile:
        scripted = False
    if not scripted:
        raise InvalidDescription(
            f"{file}: not TorchScript; checkpoints are pickled, can execute code and are never "
            "loaded. Export the policy as ONNX."
        )


def _width(shape: list[int | str | None]) -> int | None:
    last = shape[-1] if shape else None
    return last if isinstance(last, int) else None


def _state_shape(value: Any, batch: int, file: Path) -> tuple[int, ...]:
    """Return the shape of a recurrent state."""
    shape = tuple(n if isinstance(n, int) else batch for n in value.shape)
    if int(np.prod(shape)) > 10_000_000:
        raise InvalidDescription(f"{file}: the state '{value.name}' is too large: {shape}.")
    return shape


def _line(error: Exception) -> str:
    """Return the first line of a library's error, shortened."""
    return str(error).strip().partition("\n")[0][:300]


@dataclass(frozen=True, kw_only=True)
class ActuatorNetworkSettings:
    """Inputs, scales and limits of an actuator network.

    Raises:
        InvalidConfig: values out of range.
    """

    effort_limit: float = setting(80.0, doc="Bound of efforts.", unit="N m or N", gt=0.0, le=1e6)
    velocity_limit: float = setting(
        20.0, doc="Bound of the velocity input.", unit="rad/s or m/s", gt=0.0, le=1e4
    )
    history: int = setting(
        0, doc="Past values of an MLP's inputs, the newest included; 0: an LSTM.", ge=0, le=100
    )
    position_scale: float = setting(1.0, doc="Factor of position errors.", gt=0.0, le=1e6)
    velocity_scale: float = setting(1.0, doc="Factor of velocities.", gt=0.0, le=1e6)
    effort_scale: float = setting(1.0, doc="Factor of the output.", gt=0.0, le=1e6)

    def __post_init__(self) -> None:
        check_settings(self)


class Actuators(Protocol):
    """Computes efforts from position errors and velocities, at each physics step."""

    def reset(self) -> None:
        """Reset the state."""

    def efforts(self, error: ArrayLike, velocity: ArrayLike) -> Array:
        """Return the efforts [N m or N], shape (n,).

        Args:
            error: target minus measured positions [rad or m], shape (n,).
            velocity: measured velocities [rad/s or m/s], shape (n,).
        """


@dataclass(frozen=True, eq=False)
class PdActuators:
    """PD drives, saturated: ``clip(kp error - kd velocity)``, as Isaac Lab's IdealPDActuator."""

    stiffness: Array
    """[N m/rad or N/m], shape (n,)."""
    damping: Array
    """[N m s/rad or N s/m], shape (n,)."""
    limit: Array
    """Effort limits [N m or N], shape (n,), may be inf."""

    def reset(self) -> None:
        """No effect: stateless."""

    def efforts(self, error: ArrayLike, velocity: ArrayLike) -> Array:
        """Return the efforts; see :class:`Actuators`."""
        effort = self.stiffness * np.asarray(error) - self.damping * np.asarray(velocity)
        return np.asarray(effort.clip(-self.limit, self.limit))


class ActuatorNetwork:
    """The network of all joints, one row each."""

    def __init__(
        self, file: str | Path, joints: int, settings: ActuatorNetworkSettings | None = None
    ) -> None:
        """Load a network.

        Args:
            file: ONNX file; input (n, 2) or (n, 1, 2) of an LSTM, or (n, 2 history) of an MLP,
                position errors first, newest first.
            joints: number of joints n.
            settings: None: those of ANYmal C's LSTM.

        Raises:
            InvalidDescription: no such network, or other widths.
        """
        self.settings = settings or ActuatorNetworkSettings()
        self._n = joints
        self._model = OnnxModel(Path(file), batch=joints)
        self._width = 2 * max(self.settings.history, 1)
        self._past: deque[Array] = deque(maxlen=max(self.settings.history, 1))
        if self._model.input_width not in (None, self._width):
            raise InvalidDescription(
                f"{file}: the actuator network has {self._model.input_width} inputs for each "
                f"joint, {self._width} are expected.",
                field="inputs",
            )
        try:
            out = self._run(np.zeros((joints, self._width)))
        except NetworkFault as error:
            raise InvalidDescription(f"{file}: not an actuator network: {error}") from None
        if out.shape != (joints,):
            raise InvalidDescription(
                f"{file}: the actuator network returns {out.size} efforts for {joints} joints.",
                field="efforts",
            )
        self.reset()

    def reset(self) -> None:
        """Reset the state and the history."""
        self._model.reset()
        self._past.clear()

    def efforts(self, error: ArrayLike, velocity: ArrayLike) -> Array:
        """Return the efforts of the joints for one step of the physics.

        Args:
            error: target minus measured positions [rad or m], shape (n,).
            velocity: measured velocities [rad/s or m/s], shape (n,).

        Returns:
            Efforts within the limit [N m or N], shape (n,).

        Raises:
            InvalidCommand: wrong lengths, or values that are not finite; nothing changes.
            NetworkFault: the network failed or returned values that are not finite.
        """
        settings = self.settings
        pair = np.array([error, velocity], dtype=np.float64)
        if pair.shape != (2, self._n) or not np.isfinite(pair).all():
            raise InvalidCommand(
                f"errors and velocities must be {self._n} finite numbers each, got shape "
                f"{pair.shape}"
            )
        limit = settings.velocity_limit
        pair[1] = pair[1].clip(-limit, limit)
        pair *= np.array([[settings.position_scale], [settings.velocity_scale]])
        missing = self._past.maxlen or 1
        self._past.extendleft([pair] * (1 if self._past else missing))
        inputs = np.concatenate(
            [np.array([past[row] for past in self._past]).T for row in (0, 1)], axis=1
        )
        out = settings.effort_scale * self._run(inputs)
        if not np.isfinite(out).all():
            raise NetworkFault("the actuator network returned values that are not finite")
        return np.asarray(out.clip(-settings.effort_limit, settings.effort_limit))

    def _run(self, inputs: Array) -> Array:
        rows = inputs[:, None, :] if self._model.input_rank == 3 else inputs
        return self._model.run(rows).reshape(-1)
