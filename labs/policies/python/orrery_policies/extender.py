"""``Extender``, a set of functions behind the verbs of a scheduler extender.

The wire format is that of k8s.io/kube-scheduler/extender/v1. ``answer`` is pure; ``run`` serves it on loopback.
"""

import json
import sys
import traceback
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from .objects import Object

MAX_SCORE = 10


class Extender:
    def __init__(self, port=8888, weight=1):
        """Makes an extender for a port of this machine; 0 takes a free one."""
        self.port = port
        self.weight = weight
        self._functions = {}

    def filter(self, function):
        """Registers ``function(pod, node)``. It returns a true value, or a false one or the reason for which the pod may not run there."""
        return self._register("filter", function)

    def score(self, function):
        """Registers ``function(pod, node)``. It returns a number from 0 to 10: how well the node suits the pod."""
        return self._register("prioritize", function)

    def preempt(self, function):
        """Registers ``function(pod, node_name, victims)``. It returns True if these pods may be evicted for the pod."""
        return self._register("preempt", function)

    def bind(self, function):
        """Registers ``function(namespace, name, uid, node_name)``, which binds the pod instead of the scheduler."""
        return self._register("bind", function)

    def _register(self, verb, function):
        self._functions[verb] = function
        return function

    def configuration(self):
        """Returns this extender's entry for ``extenders`` in a KubeSchedulerConfiguration."""
        entry = {"urlPrefix": f"http://127.0.0.1:{self.port}"}
        entry.update({f"{verb}Verb": verb for verb in self._functions})
        if "prioritize" in self._functions:
            entry["weight"] = self.weight
        return entry

    def answer(self, verb, question):
        """Returns the answer to one question of the scheduler."""
        function = self._functions[verb]
        return getattr(self, f"_answer_{verb}")(function, question)

    @staticmethod
    def _asked(question):
        if question.get("Nodes") is None:
            raise ValueError("the question has no nodes: set nodeCacheCapable to false")
        nodes = question["Nodes"].get("items") or []
        return Object(question["Pod"]), [Object(node) for node in nodes]

    def _answer_filter(self, function, question):
        pod, nodes = self._asked(question)
        passed, failed = [], {}
        for node in nodes:
            verdict = function(pod, node)
            if isinstance(verdict, str):
                failed[node.name] = verdict
            elif verdict:  # any other true value, as numpy's
                passed.append(node)
            else:
                failed[node.name] = f"node(s) didn't pass {function.__name__}"
        return {"Nodes": {"items": passed}, "FailedNodes": failed}

    def _answer_prioritize(self, function, question):
        pod, nodes = self._asked(question)
        scores = [(node.name, int(function(pod, node))) for node in nodes]
        return [{"Host": name, "Score": min(max(score, 0), MAX_SCORE)} for name, score in scores]

    def _answer_preempt(self, function, question):
        if question.get("NodeNameToVictims") is None:
            raise ValueError("the question has no pods: set nodeCacheCapable to false")
        pod, remaining = Object(question["Pod"]), {}
        for node, victims in question["NodeNameToVictims"].items():
            pods = [Object(victim) for victim in victims["Pods"] or []]
            if function(pod, node, pods):
                uids = [{"UID": victim.uid} for victim in pods]
                remaining[node] = {"Pods": uids, "NumPDBViolations": victims["NumPDBViolations"]}
        return {"NodeNameToMetaVictims": remaining}

    def _answer_bind(self, function, question):
        function(question["PodNamespace"], question["PodName"], question["PodUID"], question["Node"])
        return {}

    def server(self):
        """Returns the HTTP server, which listens already and serves nothing yet."""
        server = ThreadingHTTPServer(("127.0.0.1", self.port), _handler(self))
        self.port = server.server_port
        return server

    def run(self):
        """Prints the entry for the scheduler's configuration, and answers until the process ends."""
        with self.server() as server:
            print(json.dumps(self.configuration()), flush=True)
            try:
                server.serve_forever()
            except KeyboardInterrupt:
                pass


def _handler(extender):
    class Handler(BaseHTTPRequestHandler):
        # Connections stay open between questions.
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self):
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            verb = self.path.strip("/")
            if verb not in extender._functions:
                return self._send(404, {"Error": f"no function for {verb!r}"})
            try:
                answer = json.dumps(extender.answer(verb, json.loads(body)))
            except Exception as error:  # a policy's mistake is the pod's event, not the end of the server
                traceback.print_exc(file=sys.stderr)
                if verb in ("filter", "bind"):
                    return self._send(200, {"Error": f"{type(error).__name__}: {error}"})
                return self._send(500, {"Error": str(error)})
            return self._send(200, answer)

        def _send(self, code, answer):
            body = (answer if isinstance(answer, str) else json.dumps(answer)).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    return Handler
