"""Which behaviour a container config gets when no test says otherwise."""

from __future__ import annotations

from podtui.runtime.memory.behaviour import Actor, Behaviour, BehaviourActor
from podtui.runtime.memory.files import ContainerFiles
from podtui.runtime.protocol import ContainerConfig


def behaviour_of(config: ContainerConfig) -> Behaviour:
    """An image's own entry point: says so, and runs until it is stopped."""
    words = " ".join((*(config.command or ()), *(config.args or ())))
    what = words.splitlines()[0][:120] if words else config.image
    return Behaviour(lines=(f"simulated: {what}",))


def actor_of(config: ContainerConfig, files: ContainerFiles) -> Actor:
    """What a container runs by default."""
    return BehaviourActor(behaviour_of(config))


def exec_actor(
    config: ContainerConfig,
    files: ContainerFiles,
    command: tuple[str, ...],
    behaviour: Behaviour | None,
) -> Actor:
    """What a command executed in a container runs; ``behaviour`` is a test's word on it."""
    return BehaviourActor(behaviour or Behaviour(exit_after=0.0))
