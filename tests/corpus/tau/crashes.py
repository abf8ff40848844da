"""The same agent's forerunner, which crashed: its environment takes texts only, its parser is Python's."""

from __future__ import annotations

import ast
import re

import pydantic

import stepfork

from . import script
from .cloud import HttpResponseError, ProtocolError, ServiceResponseError


class EnvResponse(pydantic.BaseModel):
    """What the environment answers to an action."""

    observation: str
    reward: float = 0.0
    done: bool = False


@stepfork.model
def complete(prompt: str) -> str:
    """Return the model's next action as a Python call; raises what the provider's client raises."""
    error = str(script.executed("complete")["info"]["error"])
    if error.startswith("('Connection aborted.'"):
        reset = ConnectionResetError(10054, "An existing connection was forcibly closed by the remote host")
        raise ServiceResponseError(error, error=ProtocolError("Connection aborted.", reset))
    if error.startswith("Syntax error while parsing: unterminated string literal"):
        return "respond(content='I have cancelled your order)"
    number = re.search(r"input_value=([\d.]+), input_type=float", error)
    if number:
        return f"calculate(expression='{number[1]}')"
    raise HttpResponseError(error, status_code=403 if "Forbidden" in error else 429)


@stepfork.tool
def calculate(expression: str) -> float:
    """Return what an expression comes to."""
    script.executed("calculate")
    return float(expression)


@stepfork.step
def parse(text: str) -> tuple[str, dict[str, str]]:
    """Return the name and arguments of the action that the model wrote."""
    try:
        call = ast.parse(text, mode="eval").body
    except SyntaxError as error:
        raise ValueError(f"Syntax error while parsing: {error}") from error
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        raise ValueError(f"not a call: {text}")
    return call.func.id, {item.arg or "": ast.literal_eval(item.value) for item in call.keywords}


@stepfork.step
def act(name: str, arguments: dict[str, str]) -> EnvResponse:
    """Take an action, and return the environment's answer."""
    if name == "calculate":
        return EnvResponse.model_validate({"observation": calculate(**arguments)})
    return EnvResponse(observation=arguments["content"], done=True)


@stepfork.step
def solve_crashing(task_id: int) -> EnvResponse:
    """Take one action for a task."""
    name, arguments = parse(complete(f"What is to be done for task {task_id}?"))
    return act(name, arguments)
