"""A scripted server with vLLM's command line, log and HTTP API, to test the runner: it computes nothing.

    python fake_vllm_server.py serve MODEL --host H --port P … [--speculative-config JSON]

What it does is in MODEL/script.json, as {"with": {…}, "without": {…}} for the run with and without speculation:

    start     ok | refuse | once (refuses the first time) | die | memory | signal | hang | cannot | taken (its port) | clone (leaves a child outside its group, then serves)
    after     after how many answers the process dies (default: never)
    wrong     positions in every answer whose token is another one
    tie       how far apart the likeliest two tokens are, in nats (default 2.0)
    accepted  accepted tokens by position out of every 100 drafts (default [80, 60, 40])
    delay     seconds a token takes (default 0)
    template  false: the model has no chat template
    stall     true: answers nothing, for ever
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

REFUSAL = """\
(APIServer pid=7) Traceback (most recent call last):
(APIServer pid=7)   File "vllm/config/speculative.py", line 1, in __post_init__
(APIServer pid=7) pydantic_core._pydantic_core.ValidationError: 1 validation error for SpeculativeConfig
(APIServer pid=7)   Value error, Eagle3 is only supported for ['llama', 'qwen'] models. Got 'deepseek_v3' [type=value_error]
"""
LOADING = "(EngineCore pid=8) INFO 11-29 17:56:48 [core.py:133] Initializing a V1 LLM engine (v0.32.0) with config: x"
DEATH = """\
(Worker pid=9) ERROR 11-29 17:57:08 [multiproc_executor.py:1063] Traceback (most recent call last):
(Worker pid=9) ERROR 11-29 17:57:08 [multiproc_executor.py:1063]     raise ValueError(
(Worker pid=9) ERROR 11-29 17:57:08 [multiproc_executor.py:1063] ValueError: No common block size for 16.
(APIServer pid=7) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}
"""
MEMORY = "(Worker pid=9) ERROR 11-29 17:57:08 [x.py:1] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB"
CANNOT = (
    "(EngineCore pid=8) ERROR 11-29 17:57:08 [core.py:9] NotImplementedError: MLA is not supported on CPU."
)
TAKEN = "(APIServer pid=7) ERROR:    [Errno 98] error while attempting to bind on address ('127.0.0.1', 4000): address already in use"


class Script:
    def __init__(self, model: Path, *, speculative: bool) -> None:
        document = json.loads((model / "script.json").read_text(encoding="utf-8"))
        # A wheel's own behaviour wins: that is how leaving out a patch makes a difference.
        own = Path(__file__).with_name("behaviour.json")
        if own.is_file():
            document = json.loads(own.read_text(encoding="utf-8"))
        part = document.get("with" if speculative else "without", {})
        self.start: str = part.get("start", "ok")
        self.after: int | None = part.get("after")
        self.wrong: list[int] = part.get("wrong", [])
        self.tie: float = part.get("tie", 2.0)
        self.accepted: list[int] = part.get("accepted", [80, 60, 40])
        self.delay: float = part.get("delay", 0.0)
        self.stall: bool = part.get("stall", False)
        self.template: bool = part.get("template", True)
        self.speculative = speculative
        self.drafts = 0
        self.answered = 0


def token_at(prompt: list[int], position: int) -> int:
    """The same token whether a prompt is answered in one go or taken up again behind its first tokens."""
    return (sum(prompt[:3]) * 31 + (len(prompt) + position) * 7) % 251


def answer(script: Script, prompt: list[int], count: int) -> list[int]:
    tokens = [token_at(prompt, position) for position in range(count)]
    for position in script.wrong:
        if position < count:
            tokens[position] = (tokens[position] + 1) % 251
    return tokens


class Handler(BaseHTTPRequestHandler):
    script: Script
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        if self.path == "/health":
            self.send(200, b"", "text/plain")
        elif self.path == "/metrics":
            self.send(200, self.metrics().encode(), "text/plain; version=0.0.4")
        else:
            self.send(404, b"{}", "application/json")

    def metrics(self) -> str:
        script = self.script
        labels = 'engine="0",model_name="m"'
        lines = ["# HELP vllm:num_requests_running x", f"vllm:num_requests_running{{{labels}}} 0.0"]
        if script.speculative:
            accepted = [script.drafts * share // 100 for share in script.accepted]
            values = {
                "num_drafts": script.drafts,
                "num_draft_tokens": script.drafts * len(accepted),
                "num_accepted_tokens": sum(accepted),
            }
            for name, value in values.items():
                lines.append(f"vllm:spec_decode_{name}_total{{{labels}}} {float(value)}")
            for position, value in enumerate(accepted):
                lines.append(
                    "vllm:spec_decode_num_accepted_tokens_per_pos_total"
                    f'{{{labels},position="{position}"}} {float(value)}'
                )
        return "\n".join(lines) + "\n"

    def do_POST(self) -> None:
        script = self.script
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if script.stall:
            time.sleep(3600)
        script.answered += 1
        if script.after is not None and script.answered > script.after:
            print(
                "(EngineCore pid=8) ERROR 11-29 17:59:00 [core.py:1] RuntimeError: CUDA error: illegal memory access"
            )
            sys.stdout.flush()
            os._exit(1)
        if self.path == "/v1/chat/completions" and script.template is False:
            message = "As of transformers v4.44, default chat template is no longer allowed, so you must provide one"
            self.send(400, json.dumps({"error": {"message": message}}).encode(), "application/json")
            return
        if self.path == "/v1/chat/completions":
            reply = "391 Ulaanbaatar 29 desserts iron 4096 6 Mercury"
            self.json({"choices": [{"message": {"content": reply}}]})
            return
        prompt = body["prompt"]
        ids = list(prompt.encode()) if isinstance(prompt, str) else list(prompt)
        count = body["max_tokens"]
        tokens = answer(script, ids, count)
        script.drafts += 100
        if body.get("stream"):
            self.stream(tokens)
            return
        time.sleep(script.delay * count)
        choice: dict[str, Any] = {
            "text": " ".join(f"w{token}" for token in tokens),
            "token_ids": tokens,
            "prompt_token_ids": ids,
        }
        if body.get("logprobs"):
            choice["logprobs"] = {
                "tokens": [f"token_id:{token}" for token in tokens],
                "top_logprobs": [self.likely(ids, position, token) for position, token in enumerate(tokens)],
            }
        self.json({"choices": [choice]})

    def likely(self, ids: list[int], position: int, token: int) -> dict[str, float]:
        true = token_at(ids, position)
        other = true if token != true else (true + 1) % 251
        return {f"token_id:{token}": -0.5, f"token_id:{other}": -0.5 - self.script.tie}

    def stream(self, tokens: list[int]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for token in tokens:
            time.sleep(self.script.delay)
            self.event({"choices": [{"text": f"w{token}"}]})
        self.event({"choices": [], "usage": {"completion_tokens": len(tokens)}})
        self.wfile.write(b"data: [DONE]\n\n")
        self.close_connection = True

    def event(self, document: object) -> None:
        self.wfile.write(b"data: " + json.dumps(document).encode() + b"\n\n")

    def json(self, document: object) -> None:
        self.send(200, json.dumps(document).encode(), "application/json")

    def send(self, status: int, content: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def main(argv: list[str]) -> int:
    words = argv[argv.index("serve") + 1 :]
    model, port = Path(words[0]), int(words[words.index("--port") + 1])
    script = Script(model, speculative="--speculative-config" in words)
    match script.start:
        case "refuse":
            print(REFUSAL)
            return 1
        case "hang":
            print(LOADING, flush=True)
            time.sleep(3600)
        case "signal":
            print(LOADING, flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        case "die" | "memory" | "cannot" | "taken" as how:
            print(LOADING)
            print({"die": DEATH, "memory": MEMORY, "cannot": CANNOT, "taken": TAKEN}[how])
            return 1
        case "once" if not (model / "once").exists():
            (model / "once").touch()
            print(REFUSAL)
            return 1
        case "clone":
            child = subprocess.Popen(
                [sys.executable, "-c", "import time; time.sleep(3600)"], start_new_session=True
            )
            (model / "child.pid").write_text(str(child.pid), encoding="ascii")
        case _:
            pass
    print(LOADING, flush=True)
    Handler.script = script
    ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
