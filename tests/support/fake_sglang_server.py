"""A scripted server that takes exactly what SGLang 0.5.9 takes, and answers as it does; it computes nothing.

    python fake_sglang_server.py --model-path MODEL --port P …

Options and their choices are those of srt/server_args.py, fields those of `GenerateReqInput` in srt/managers/io_struct.py
and of `CompletionRequest` in srt/entrypoints/openai/protocol.py, as far as forktool knows of them: anything else is
refused. What it does is in MODEL/script.json, as {"with": {…}, "without": {…}}:

    histogram   steps by how many drafts each accepted, for every answer (default [1, 2, 3, 4]); null leaves it out
    wrong       positions in every answer whose token is another one
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

BACKENDS = [
    "triton",
    "torch_native",
    "flex_attention",
    "nsa",
    "cutlass_mla",
    "fa3",
    "fa4",
    "flashinfer",
    "flashmla",
    "trtllm_mla",
    "trtllm_mha",
    "dual_chunk_flash_attn",
    "aiter",
    "wave",
    "intel_amx",
    "ascend",
    "intel_xpu",
]
GENERATE = {
    "text",
    "input_ids",
    "sampling_params",
    "return_logprob",
    "logprob_start_len",
    "top_logprobs_num",
    "stream",
}
SAMPLING = {"temperature", "max_new_tokens", "ignore_eos"}
COMPLETION = {
    "model",
    "prompt",
    "max_tokens",
    "temperature",
    "seed",
    "stream",
    "stream_options",
    "ignore_eos",
}
CHAT = {"model", "messages", "max_tokens", "temperature", "seed"}


def parser() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(prog="launch_server.py", allow_abbrev=False)
    for name in (
        "--model-path",
        "--host",
        "--served-model-name",
        "--speculative-draft-model-path",
        "--dtype",
    ):
        found.add_argument(name)
    for name in (
        "--port", "--tp-size", "--random-seed", "--speculative-num-steps", "--speculative-eagle-topk",
        "--speculative-num-draft-tokens", "--context-length", "--max-total-tokens",
    ):  # fmt: skip
        found.add_argument(name, type=int)
    for name in ("--enable-metrics", "--trust-remote-code"):
        found.add_argument(name, action="store_true")
    found.add_argument("--device", choices=["cuda", "xpu", "hpu", "npu", "cpu"])
    found.add_argument("--attention-backend", choices=BACKENDS)
    found.add_argument(
        "--kv-cache-dtype", choices=["auto", "fp8_e5m2", "fp8_e4m3", "bf16", "bfloat16", "fp4_e2m1"]
    )
    found.add_argument("--speculative-algorithm", choices=["EAGLE", "EAGLE3", "NEXTN", "STANDALONE", "NGRAM"])
    return found


def token_at(prompt: list[int], position: int) -> int:
    return (sum(prompt[:3]) * 31 + (len(prompt) + position) * 7) % 251


class Handler(BaseHTTPRequestHandler):
    options: argparse.Namespace
    script: dict[str, Any]
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        if self.path == "/health":
            self.send(200, {})
        elif self.path == "/metrics" and self.options.enable_metrics:
            # Gauges: 0 until 40 steps of decoding were logged, with speculation and without.
            labels = '{engine_type="unified",model_name="m",tp_rank="0"}'
            page = f"sglang:spec_accept_length{labels} 0.0\nsglang:spec_accept_rate{labels} 0.0\n"
            self.send(200, page.encode())
        else:
            self.send(404, {"detail": "Not Found"})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        match self.path:
            case "/generate":
                self.generate(body)
            case "/v1/completions":
                self.complete(body)
            case "/v1/chat/completions":
                if self.knows(body, CHAT):
                    self.send(200, {"choices": [{"message": {"role": "assistant", "content": "391 iron"}}]})
            case _:
                self.send(404, {"detail": "Not Found"})

    def knows(self, body: dict[str, Any], fields: set[str]) -> bool:
        strange = sorted(set(body) - fields)
        if strange:
            self.send(400, {"object": "error", "message": f"{strange[0]} is no field of {self.path}"})
        return not strange

    def generate(self, body: dict[str, Any]) -> None:
        sampling = body.get("sampling_params", {})
        if not self.knows(body, GENERATE) or not self.knows(sampling, SAMPLING):
            return
        ids = list(body["text"].encode()) if "text" in body else body["input_ids"]
        tokens = [token_at(ids, place) for place in range(sampling["max_new_tokens"])]
        for place in self.script.get("wrong", []):
            tokens[place] = (tokens[place] + 1) % 251
        told: dict[str, Any] = {
            "prompt_tokens": len(ids), "completion_tokens": len(tokens),
            "finish_reason": {"type": "length", "length": len(tokens)},
        }  # fmt: skip
        if body.get("return_logprob"):
            count = body.get("top_logprobs_num", 0)
            begin = body.get("logprob_start_len", -1)
            told["input_token_logprobs"] = [[None, item, None] for item in ids] if begin == 0 else []
            told["output_token_logprobs"] = [[-0.5, token, None] for token in tokens]
            told["output_top_logprobs"] = [
                [[-0.5 - place, (token + place) % 251, None] for place in range(count)] for token in tokens
            ]
        histogram = self.script.get("histogram", [1, 2, 3, 4])
        if self.options.speculative_algorithm and histogram is not None:
            steps = sum(histogram)
            told |= {
                "spec_verify_ct": steps,
                "spec_draft_token_num": steps * (self.options.speculative_num_draft_tokens - 1),
                "spec_accept_token_num": sum(number * count for number, count in enumerate(histogram)),
                "spec_accept_histogram": histogram,
            }
        self.send(
            200, {"text": " ".join(f"w{item}" for item in tokens), "output_ids": tokens, "meta_info": told}
        )

    def complete(self, body: dict[str, Any]) -> None:
        if not self.knows(body, COMPLETION):
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for _ in range(body["max_tokens"]):
            self.event({"choices": [{"index": 0, "text": "w"}], "usage": None})
        self.event({"choices": [], "usage": {"completion_tokens": body["max_tokens"]}})
        self.wfile.write(b"data: [DONE]\n\n")
        self.close_connection = True

    def event(self, document: object) -> None:
        self.wfile.write(b"data: " + json.dumps(document).encode() + b"\n\n")

    def send(self, status: int, content: object) -> None:
        sent = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(sent)))
        self.end_headers()
        self.wfile.write(sent)


def main(argv: list[str]) -> int:
    options = parser().parse_args(argv)
    # Without it `/health` generates a token and takes a second; is_cpu() asks for the other.
    assert os.environ["SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION"] == "0"
    assert options.device != "cpu" or os.environ["SGLANG_USE_CPU_ENGINE"] == "1"
    script = json.loads((Path(options.model_path) / "script.json").read_text(encoding="utf-8"))
    print("[2026-11-29 20:25:03] Load weight begin. avail mem=20.04 GB", flush=True)
    Handler.options = options
    Handler.script = script.get("with" if options.speculative_algorithm else "without", {})
    ThreadingHTTPServer(("127.0.0.1", options.port), Handler).serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
