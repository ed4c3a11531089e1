"""An OpenAI-compatible server that answers by a function, from the standard library alone; remembers what it was asked."""

import http.server
import json
import threading


class ScriptedModel:
    """`answer(messages, body)` gives a text, or (status, message) to refuse. Use as a context manager."""

    def __init__(self, answer, name="scripted"):
        self.answer = answer
        self.requests = []
        self.keys = []
        model = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def reply(self, status, value, headers=()):
                body = json.dumps(value).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                for header in headers:
                    self.send_header(*header)
                self.end_headers()
                self.wfile.write(body)

            def do_GET(self):
                self.reply(200, {"data": [{"id": name}]})

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with model.lock:
                    model.requests.append(body)
                    model.keys.append(self.headers.get("Authorization"))
                    said = model.answer(body["messages"], body)
                if isinstance(said, tuple):
                    status, message = said
                    self.reply(status, {"error": {"message": message}}, [("Retry-After", "0.2")])
                    return
                choice = {
                    "index": 0,
                    "finish_reason": "stop",
                    "message": {"role": "assistant", "content": said},
                }
                self.reply(
                    200,
                    {
                        "model": name,
                        "choices": [choice],
                        "usage": {"prompt_tokens": 11, "completion_tokens": 7},
                    },
                )

        self.lock = threading.Lock()
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
