"""A server's OpenAI API, its health and its Prometheus page; loopback only, no proxy, no retries."""

from __future__ import annotations

import http.client
import json
import re
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from forktool.core.matrix_engine import Answer, Engine, Prompt
from forktool.core.matrix_gates import Measure
from forktool.core.prometheus import Sample, parse_metrics
from forktool.errors import NetworkError

_HOST = "127.0.0.1"


class NoTemplateError(NetworkError):
    """The model has no chat template."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Timing:
    """One streamed answer: tokens, and seconds to the first and to the last."""

    tokens: int
    first: float
    total: float


class OpenAiApi:
    """One server's API; safe to use from threads.

    Args:
        port: on the loopback interface.
        model: the name it serves.
        engine: whose server it is.
        timeout: seconds without a byte before a request fails.
    """

    def __init__(self, port: int, model: str, engine: Engine, *, timeout: float = 600.0) -> None:
        self.port = port
        self.model = model
        self._engine = engine
        self._timeout = timeout

    def is_healthy(self) -> bool:
        """Whether `/health` answers 200; False for anything else, a server that is not there too."""
        try:
            connection = http.client.HTTPConnection(_HOST, self.port, timeout=5)
            try:
                connection.request("GET", "/health")
                return connection.getresponse().status == 200
            finally:
                connection.close()
        except (OSError, http.client.HTTPException):
            return False

    def metrics(self) -> tuple[Sample, ...]:
        """The samples of `/metrics`.

        Raises:
            NetworkError: the server refused or is gone.
        """
        return parse_metrics(self._ask("GET", "/metrics", None).decode("utf-8", "replace"))

    def complete(self, prompt: Prompt, *, tokens: int, likeliest: int = 0) -> Answer:
        """A greedy answer of exactly `tokens` tokens, unless the model's context ends before.

        Args:
            prompt: a text, or token ids.
            tokens: how many.
            likeliest: for how many tokens of each place the log-probability is asked.

        Raises:
            NetworkError: the server refused or is gone; the message holds its own words.
        """
        question = self._engine.question(self.model, prompt, tokens=tokens, likeliest=likeliest)
        answer = self._ask("POST", question.path, question.body)
        try:
            return self._engine.answer(json.loads(answer))
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            raise NetworkError(
                f"{self._where(question.path)}: an answer without tokens: {answer!r:.200}"
            ) from error

    def chat(self, question: str, *, tokens: int) -> str:
        """A greedy answer to a question, through the model's own chat template.

        Raises:
            NoTemplateError: it has none.
            NetworkError: the server refused or is gone.
        """
        body = {
            "model": self.model,
            "messages": [{"role": "user", "content": question}],
            "max_tokens": tokens,
            "temperature": 0,
            "seed": 0,
        }
        answer = json.loads(self._ask("POST", "/v1/chat/completions", body))
        try:
            return str(answer["choices"][0]["message"]["content"] or "")
        except (KeyError, IndexError, TypeError) as error:
            raise NetworkError(
                f"{self._where('/v1/chat/completions')}: an answer without choices: {answer!r:.200}"
            ) from error

    def timed(self, prompt: Prompt, *, tokens: int) -> Timing:
        """One streamed answer, timed.

        Raises:
            NetworkError: the server refused, broke off or is gone.
        """
        body = {
            "model": self.model,
            "prompt": prompt if isinstance(prompt, str) else list(prompt),
            "max_tokens": tokens,
            "temperature": 0,
            "seed": 0,
            "ignore_eos": True,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        began = time.perf_counter()
        first: float | None = None
        counted, used = 0, None
        connection = self._connect("/v1/completions", "POST", body)
        try:
            response = connection.getresponse()
            if response.status != 200:
                raise self._refused("/v1/completions", response.status, response.read())
            for line in response:
                if not line.startswith(b"data:") or line[5:].strip() == b"[DONE]":
                    continue
                event = json.loads(line[5:])
                if event.get("choices"):
                    first = first if first is not None else time.perf_counter() - began
                    counted += 1
                if event.get("usage"):
                    used = int(event["usage"].get("completion_tokens") or 0)
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise NetworkError(f"{self._where('/v1/completions')}: broke off: {error}") from error
        finally:
            connection.close()
        total = time.perf_counter() - began
        return Timing(tokens=used if used is not None else counted, first=first or total, total=total)

    def measure(
        self, prompts: Sequence[Prompt], *, concurrency: int, requests: int, tokens: int
    ) -> tuple[float, tuple[Timing, ...]]:
        """Send `requests` requests, `concurrency` of them at a time, and return tokens a second and each timing.

        Raises:
            NetworkError: a request failed.
        """
        began = time.perf_counter()
        with ThreadPoolExecutor(max_workers=concurrency) as pool:
            timings = tuple(
                pool.map(
                    lambda number: self.timed(prompts[number % len(prompts)], tokens=tokens),
                    range(requests),
                )
            )
        seconds = time.perf_counter() - began
        return sum(timing.tokens for timing in timings) / seconds, timings

    def _ask(self, method: str, path: str, body: object) -> bytes:
        connection = self._connect(path, method, body)
        try:
            response = connection.getresponse()
            content = response.read()
        except (OSError, http.client.HTTPException) as error:
            raise NetworkError(f"{self._where(path)}: the server is gone: {error}") from error
        finally:
            connection.close()
        if response.status != 200:
            raise self._refused(path, response.status, content)
        return content

    def _connect(self, path: str, method: str, body: object) -> http.client.HTTPConnection:
        connection = http.client.HTTPConnection(_HOST, self.port, timeout=self._timeout)
        content = None if body is None else json.dumps(body).encode()
        try:
            connection.request(method, path, content, {"Content-Type": "application/json"})
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise NetworkError(f"{self._where(path)}: the server is gone: {error}") from error
        return connection

    def _refused(self, path: str, status: int, content: bytes) -> NetworkError:
        text = content.decode("utf-8", "replace").strip()
        try:
            document = json.loads(text)
            text = (document.get("error") or document)["message"]
        except (ValueError, KeyError, TypeError, AttributeError):
            pass
        # In transformers' words (tokenization_utils_base.py), which both engines hand on.
        untold = status == 400 and re.search("chat.template", str(text))
        kind = NoTemplateError if untold else NetworkError
        return kind(f"{self._where(path)}: HTTP {status}: {str(text)[:300]}")

    def _where(self, path: str) -> str:
        return f"http://{_HOST}:{self.port}{path}"


class Measurements:
    """Rounds of one side, gathered by concurrency."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rounds: dict[int, list[tuple[float, tuple[Timing, ...]]]] = {}

    def add(self, concurrency: int, throughput: float, timings: tuple[Timing, ...]) -> None:
        """One round."""
        with self._lock:
            self._rounds.setdefault(concurrency, []).append((throughput, timings))

    def measures(self) -> tuple[Measure, ...]:
        """All rounds, by concurrency."""
        return tuple(
            Measure(
                concurrency=level,
                throughput=tuple(throughput for throughput, _timings in rounds),
                latency=tuple(timing.total for _throughput, timings in rounds for timing in timings),
                first_token=tuple(timing.first for _throughput, timings in rounds for timing in timings),
            )
            for level, rounds in sorted(self._rounds.items())
        )
