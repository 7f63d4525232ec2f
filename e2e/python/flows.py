"""Runs the official Python client against the cluster of KUBECONFIG.

Each function named `flow_…` is a test. By default all of them run, and the exit status is 0 if all succeed. A name on the
command line selects one test.
"""

import json
import sys
import threading
import time
import traceback

import websocket
from kubernetes import client, config, dynamic, utils, watch
from kubernetes.client.exceptions import ApiException
from kubernetes.leaderelection import leaderelection
from kubernetes.leaderelection.electionconfig import Config as Election
from kubernetes.leaderelection.resourcelock.leaselock import LeaseLock
from kubernetes.stream import portforward, stream
from kubernetes.stream.ws_client import RESIZE_CHANNEL

NAMESPACE = "python"
SECONDS = 60


def refused(status, reason, action):
    """Runs an action that the server must refuse with this status and reason."""
    try:
        action()
    except ApiException as error:
        assert error.status == status, f"{error.status}, not {status}: {error.body}"
        assert reason in error.body, error.body
        return error
    raise AssertionError(f"it was not refused with {status} {reason}")


def until(what, holds):
    """Waits until `holds` returns a true value, and returns it. The error after a minute names `what`."""
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        found = holds()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError(f"{what}: not in {SECONDS} s")


def config_map(name, **data):
    labels = {"app": "python"}
    return client.V1ConfigMap(metadata=client.V1ObjectMeta(name=name, labels=labels), data=data)


def flow_versions_and_discovery():
    version = client.VersionApi().get_code()
    assert (version.major, version.minor) == ("1", "36"), version
    groups = [group.name for group in client.ApisApi().get_api_versions().groups]
    assert "apps" in groups and "coordination.k8s.io" in groups, groups
    found = dynamic.DynamicClient(client.ApiClient()).resources.get(api_version="apps/v1", kind="Deployment")
    assert found.name == "deployments" and found.namespaced


def flow_create_read_update_delete():
    core = client.CoreV1Api()
    made = core.create_namespaced_config_map(NAMESPACE, config_map("one", a="1"))
    assert made.metadata.uid and made.metadata.creation_timestamp.tzinfo is not None
    refused(409, "AlreadyExists", lambda: core.create_namespaced_config_map(NAMESPACE, config_map("one")))
    made.data["b"] = "2"
    written = core.replace_namespaced_config_map("one", NAMESPACE, made)
    assert int(written.metadata.resource_version) > int(made.metadata.resource_version)
    refused(409, "Conflict", lambda: core.replace_namespaced_config_map("one", NAMESPACE, made))
    patched = core.patch_namespaced_config_map("one", NAMESPACE, {"data": {"a": None, "c": "3"}})
    assert patched.data == {"b": "2", "c": "3"}, patched.data
    operations = [{"op": "replace", "path": "/data/b", "value": "4"}]
    patched = core.patch_namespaced_config_map("one", NAMESPACE, operations)
    assert patched.data["b"] == "4"
    ended = core.delete_namespaced_config_map("one", NAMESPACE)
    assert ended["status"] == "Success", ended
    refused(404, "NotFound", lambda: core.read_namespaced_config_map("one", NAMESPACE))
    bad = config_map("Not_A_Name")
    refused(422, "Invalid", lambda: core.create_namespaced_config_map(NAMESPACE, bad))


def flow_typed_objects_round_trip():
    """The client parses every answer into a typed object, and fails if the answer lacks a required field."""
    apps = client.AppsV1Api()
    container = client.V1Container(name="web", image="nginx", ports=[client.V1ContainerPort(container_port=80)])
    template = client.V1PodTemplateSpec(
        metadata=client.V1ObjectMeta(labels={"app": "web"}), spec=client.V1PodSpec(containers=[container])
    )
    selector = client.V1LabelSelector(match_labels={"app": "web"})
    spec = client.V1DeploymentSpec(replicas=2, selector=selector, template=template)
    web = client.V1Deployment(metadata=client.V1ObjectMeta(name="web"), spec=spec)
    apps.create_namespaced_deployment(NAMESPACE, web)
    until("two replicas", lambda: apps.read_namespaced_deployment("web", NAMESPACE).status.ready_replicas == 2)
    apps.patch_namespaced_deployment_scale("web", NAMESPACE, {"spec": {"replicas": 3}})
    until("three replicas", lambda: apps.read_namespaced_deployment("web", NAMESPACE).status.ready_replicas == 3)
    scale = apps.read_namespaced_deployment_scale("web", NAMESPACE)
    assert scale.status.replicas == 3 and scale.status.selector == "app=web", scale
    core = client.CoreV1Api()
    pods = core.list_namespaced_pod(NAMESPACE, label_selector="app in (web)", field_selector="status.phase=Running")
    assert len(pods.items) == 3 and all(pod.status.pod_ip for pod in pods.items)
    core.create_namespaced_pod_eviction(
        pods.items[0].metadata.name,
        NAMESPACE,
        client.V1Eviction(metadata=client.V1ObjectMeta(name=pods.items[0].metadata.name)),
    )
    for item in core.list_node().items:
        assert item.status.node_info.kubelet_version and item.status.capacity["cpu"]
    for event in core.list_namespaced_event(NAMESPACE).items:
        assert event.involved_object.kind and event.reason
    apps.delete_namespaced_deployment("web", NAMESPACE, propagation_policy="Foreground")
    until("no pods", lambda: not core.list_namespaced_pod(NAMESPACE, label_selector="app=web").items)


def flow_watch_with_resume():
    core = client.CoreV1Api()
    begin = core.list_namespaced_config_map(NAMESPACE).metadata.resource_version
    for number in range(5):
        core.create_namespaced_config_map(NAMESPACE, config_map(f"seen-{number}"))
    watcher = watch.Watch()
    options = dict(label_selector="app=python", timeout_seconds=SECONDS)
    names = []
    for event in watcher.stream(core.list_namespaced_config_map, NAMESPACE, resource_version=begin, **options):
        names.append((event["type"], event["object"].metadata.name))
        if len(names) == 2:
            watcher.stop()
    resumed = watch.Watch()
    for event in resumed.stream(
        core.list_namespaced_config_map, NAMESPACE, resource_version=watcher.resource_version, **options
    ):
        names.append((event["type"], event["object"].metadata.name))
        if len(names) == 5:
            core.patch_namespaced_config_map("seen-0", NAMESPACE, {"metadata": {"labels": {"app": "else"}}})
        if len(names) == 6:
            resumed.stop()
    wanted = [("ADDED", f"seen-{number}") for number in range(5)] + [("DELETED", "seen-0")]
    assert names == wanted, names
    core.delete_collection_namespaced_config_map(NAMESPACE, label_selector="app in (python, else)")
    try:
        for event in watch.Watch().stream(
            core.list_namespaced_config_map, NAMESPACE, resource_version="999999999", timeout_seconds=1
        ):
            raise AssertionError(f"an event of the future: {event}")
    except ApiException as error:
        assert error.status in (410, 504), error


def flow_pages():
    core = client.CoreV1Api()
    for number in range(7):
        core.create_namespaced_config_map(NAMESPACE, config_map(f"page-{number}"))
    names, token, revisions = [], None, set()
    while True:
        page = core.list_namespaced_config_map(NAMESPACE, limit=3, _continue=token, label_selector="app=python")
        names += [item.metadata.name for item in page.items]
        revisions.add(page.metadata.resource_version)
        token = page.metadata._continue
        core.create_namespaced_config_map(NAMESPACE, config_map(f"page-late-{len(names)}"))
        if not token:
            break
    assert names == [f"page-{number}" for number in range(7)], names
    assert len(revisions) == 1, revisions
    refused(400, "continue", lambda: core.list_namespaced_config_map(NAMESPACE, _continue="rubbish"))
    core.delete_collection_namespaced_config_map(NAMESPACE, label_selector="app=python")
    until("none", lambda: not core.list_namespaced_config_map(NAMESPACE, label_selector="app=python").items)


def flow_server_side_apply():
    maps = dynamic.DynamicClient(client.ApiClient()).resources.get(api_version="v1", kind="ConfigMap")

    def apply(manager, force=False, **data):
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shared"}, "data": data}
        return maps.server_side_apply(
            body=body, name="shared", namespace=NAMESPACE, field_manager=manager, force_conflicts=force
        )

    first = apply("alice", a="1", b="1")
    again = apply("alice", a="1", b="1")
    assert first.metadata.resourceVersion == again.metadata.resourceVersion
    apply("bob", c="1")
    error = refused(409, "Conflict", lambda: apply("bob", a="2", c="1"))
    assert 'conflict with \\"alice\\"' in error.body.decode() if isinstance(error.body, bytes) else error.body, error
    forced = apply("bob", force=True, a="2", c="1")
    assert forced.data.to_dict() == {"a": "2", "b": "1", "c": "1"}, forced.data
    left = apply("alice", b="1")
    assert left.data.to_dict() == {"a": "2", "b": "1", "c": "1"}, left.data
    gone = apply("bob")
    assert gone.data.to_dict() == {"b": "1"}, gone.data
    maps.delete(name="shared", namespace=NAMESPACE)


def flow_create_from_yaml():
    documents = [
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key"}, "stringData": {"word": "open"}},
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "once"},
            "spec": {
                "template": {
                    "metadata": {"annotations": {"orrery.dev/run-seconds": "1"}},
                    "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox"}]},
                }
            },
        },
    ]
    utils.create_from_yaml(client.ApiClient(), yaml_objects=documents, namespace=NAMESPACE)
    core = client.CoreV1Api()
    assert core.read_namespaced_secret("key", NAMESPACE).data == {"word": "b3Blbg=="}
    pods = until("a pod", lambda: core.list_namespaced_pod(NAMESPACE, label_selector="job-name=once").items)
    assert pods[0].metadata.owner_references[0].kind == "Job"
    client.BatchV1Api().delete_namespaced_job("once", NAMESPACE, propagation_policy="Background")


def flow_who_am_i():
    review = client.AuthenticationV1Api().create_self_subject_review(client.V1SelfSubjectReview())
    assert "system:masters" in review.status.user_info.groups, review
    account = "default"
    request = client.AuthenticationV1TokenRequest(spec=client.V1TokenRequestSpec(audiences=[], expiration_seconds=600))
    core = client.CoreV1Api()
    until("the account", lambda: [a for a in core.list_namespaced_service_account(NAMESPACE).items if a.metadata.name == account])
    token = core.create_namespaced_service_account_token(account, NAMESPACE, request).status.token
    other = client.Configuration.get_default_copy()
    other.cert_file = other.key_file = None
    other.api_key = {"authorization": f"Bearer {token}"}
    as_account = client.ApiClient(other)
    review = client.AuthenticationV1Api(as_account).create_self_subject_review(client.V1SelfSubjectReview())
    assert review.status.user_info.username == f"system:serviceaccount:{NAMESPACE}:{account}", review
    error = refused(403, "Forbidden", lambda: client.CoreV1Api(as_account).list_namespaced_secret(NAMESPACE))
    assert f"system:serviceaccount:{NAMESPACE}:{account}" in str(error.body)


def flow_logs_and_commands():
    core = client.CoreV1Api()
    container = client.V1Container(name="main", image="nginx")
    spec = client.V1PodSpec(containers=[container])
    core.create_namespaced_pod(NAMESPACE, client.V1Pod(metadata=client.V1ObjectMeta(name="talks"), spec=spec))
    until("it runs", lambda: core.read_namespaced_pod("talks", NAMESPACE).status.phase == "Running")
    assert core.read_namespaced_pod_log("talks", NAMESPACE)
    said = stream(
        core.connect_get_namespaced_pod_exec, "talks", NAMESPACE, command=["echo", "hello"], stdout=True, stderr=True,
        stdin=False, tty=False,
    )
    assert said.strip() == "hello", said
    core.delete_namespaced_pod("talks", NAMESPACE, grace_period_seconds=0)


def flow_a_terminal():
    """A terminal has a size that can change, and it echoes its input."""
    core = client.CoreV1Api()
    with_a_pod(core, "terminal")
    channels = dict(stdin=True, stdout=True, stderr=False, tty=True, _preload_content=False)
    shell = stream(core.connect_get_namespaced_pod_exec, "terminal", NAMESPACE, command=["sh"], **channels)
    for width, height in ((100, 30), (80, 24)):
        shell.write_channel(RESIZE_CHANNEL, json.dumps({"Width": width, "Height": height}))
        shell.write_stdin("stty size\r")
        read_until(shell, f"{height} {width}\r\n")
    shell.write_stdin("exit 3\r")
    shell.run_forever(timeout=SECONDS)
    assert shell.returncode == 3, shell.returncode
    attached = stream(core.connect_get_namespaced_pod_attach, "terminal", NAMESPACE, **channels)
    attached.write_stdin("typed\r")
    read_until(attached, "typed\r\n")
    attached.close()


def flow_port_forward():
    core = client.CoreV1Api()
    with_a_pod(core, "ports")
    forwarded = portforward(core.connect_get_namespaced_pod_portforward, "ports", NAMESPACE, ports="8080,81")
    served = forwarded.socket(8080)
    served.setblocking(True)
    served.sendall(b"GET /python HTTP/1.1\r\nHost: ports\r\nConnection: close\r\n\r\n")
    page = b""
    while piece := served.recv(4096):
        page += piece
    assert page.startswith(b"HTTP/1.1 200 OK") and b"port 8080.\nGET /python\n" in page, page
    error = until("nobody listens", lambda: forwarded.error(81))
    assert "error forwarding port 81 to pod" in error and "connection refused" in error, error
    assert forwarded.error(8080) is None, forwarded.error(8080)


def flow_websockets_behind_proxies():
    core = client.CoreV1Api()
    with_a_pod(core, "proxied")
    node = core.read_namespaced_pod("proxied", NAMESPACE).spec.node_name
    service = client.V1Service(
        metadata=client.V1ObjectMeta(name="proxied"),
        spec=client.V1ServiceSpec(selector={"app": "proxied"}, ports=[client.V1ServicePort(port=80, target_port=8080)]),
    )
    core.create_namespaced_service(NAMESPACE, service)
    until("it has an endpoint", lambda: ready_endpoints("proxied"))
    for path in ("pods/proxied:8080/proxy/chat", "services/proxied/proxy/chat"):
        socket = websocket_to(f"/api/v1/namespaces/{NAMESPACE}/{path}")
        greeting = socket.recv()
        assert "Hello from pod python/proxied" in greeting and "GET /chat\n" in greeting, greeting
        socket.send("hello")
        assert socket.recv() == "hello"
        socket.close()
    command = f"exec/{NAMESPACE}/proxied/main?output=1&command=hostname"
    socket = websocket_to(f"/api/v1/nodes/{node}/proxy/{command}", "v4.channel.k8s.io")
    assert socket.recv() == b"\x01", "an empty message says that the streams are open"
    assert socket.recv() == b"\x01proxied\n"
    socket.close()


def ready_endpoints(service):
    slices = client.DiscoveryV1Api().list_namespaced_endpoint_slice(
        NAMESPACE, label_selector=f"kubernetes.io/service-name={service}"
    )
    return [e for s in slices.items for e in s.endpoints or [] if e.conditions.ready]


def websocket_to(path, *protocols):
    known = client.Configuration.get_default_copy()
    files = {"ca_certs": known.ssl_ca_cert, "certfile": known.cert_file, "keyfile": known.key_file}
    url = known.host.replace("https:", "wss:") + path
    return websocket.create_connection(url, sslopt=files, subprotocols=list(protocols), timeout=SECONDS)


def with_a_pod(core, name):
    container = client.V1Container(name="main", image="example.org/web", ports=[client.V1ContainerPort(container_port=8080)])
    metadata = client.V1ObjectMeta(name=name, labels={"app": name})
    pod = client.V1Pod(metadata=metadata, spec=client.V1PodSpec(containers=[container]))
    core.create_namespaced_pod(NAMESPACE, pod)
    until("it runs", lambda: core.read_namespaced_pod(name, NAMESPACE).status.phase == "Running")


def read_until(connection, wanted):
    """Reads the output of a stream until it contains a text."""
    said = []

    def is_said():
        connection.update(timeout=1)
        said.append(connection.read_stdout(timeout=0) if connection.peek_stdout() else "")
        return wanted in "".join(said)

    until(f"it says {wanted!r}", is_said)


def flow_leader_election():
    """Of two candidates, the first one leads and the second one waits."""
    leads, ends = [], threading.Event()

    def candidate(name):
        def begin():
            leads.append(name)
            ends.wait(SECONDS)

        lock = LeaseLock("the-lead", NAMESPACE, name)
        election = Election(lock, lease_duration=5, renew_deadline=4, retry_period=1.1, onstarted_leading=begin, onstopped_leading=lambda: None)
        threading.Thread(target=leaderelection.LeaderElection(election).run, daemon=True).start()

    candidate("first")
    until("a leader", lambda: leads)
    candidate("second")
    leases = client.CoordinationV1Api()
    lease = until("a lease", lambda: leases.read_namespaced_lease("the-lead", NAMESPACE))
    assert lease.spec.holder_identity == "first", lease.spec
    renewed = lease.spec.renew_time
    until("a renewal", lambda: leases.read_namespaced_lease("the-lead", NAMESPACE).spec.renew_time != renewed)
    assert leads == ["first"], leads
    ends.set()


def flow_custom_resource_with_a_controller():
    """Creates a custom resource, and runs a small controller that writes the status of its objects."""
    schema = client.V1JSONSchemaProps(
        type="object",
        properties={
            "spec": client.V1JSONSchemaProps(
                type="object",
                required=["size"],
                properties={
                    "size": client.V1JSONSchemaProps(type="integer", minimum=1),
                    "colour": client.V1JSONSchemaProps(type="string", default="green"),
                },
            ),
            "status": client.V1JSONSchemaProps(
                type="object", properties={"ready": client.V1JSONSchemaProps(type="integer")}
            ),
        },
    )
    version = client.V1CustomResourceDefinitionVersion(
        name="v1",
        served=True,
        storage=True,
        schema=client.V1CustomResourceValidation(open_apiv3_schema=schema),
        subresources=client.V1CustomResourceSubresources(status={}),
    )
    names = client.V1CustomResourceDefinitionNames(kind="Gadget", plural="gadgets", singular="gadget")
    definition = client.V1CustomResourceDefinition(
        metadata=client.V1ObjectMeta(name="gadgets.python.example.com"),
        spec=client.V1CustomResourceDefinitionSpec(
            group="python.example.com", names=names, scope="Namespaced", versions=[version]
        ),
    )
    definitions = client.ApiextensionsV1Api()
    definitions.create_custom_resource_definition(definition)

    def established():
        conditions = definitions.read_custom_resource_definition(definition.metadata.name).status.conditions or []
        return [c for c in conditions if c.type == "Established" and c.status == "True"]

    until("it is established", established)
    custom = client.CustomObjectsApi()
    kind = ("python.example.com", "v1", NAMESPACE, "gadgets")
    body = {"apiVersion": "python.example.com/v1", "kind": "Gadget", "metadata": {"name": "g"}, "spec": {"size": 3}}
    made = until_served(lambda: custom.create_namespaced_custom_object(*kind, body))
    assert made["spec"] == {"size": 3, "colour": "green"}, made
    wrong = {**body, "metadata": {"name": "h"}, "spec": {"size": 0}}
    error = refused(422, "Invalid", lambda: custom.create_namespaced_custom_object(*kind, wrong))
    assert "spec.size" in str(error.body), error.body
    for event in watch.Watch().stream(custom.list_namespaced_custom_object, *kind, timeout_seconds=SECONDS):
        gadget = event["object"]
        if gadget.get("status", {}).get("ready") == gadget["spec"]["size"]:
            break
        status = {"status": {"ready": gadget["spec"]["size"]}}
        custom.patch_namespaced_custom_object_status(*kind, gadget["metadata"]["name"], status)
    definitions.delete_custom_resource_definition(definition.metadata.name)
    until("it is gone", lambda: not [d for d in definitions.list_custom_resource_definition().items if d.metadata.name == definition.metadata.name])


def until_served(action):
    """Repeats a request until a new resource is served, which is a moment after its definition is established."""

    def tried():
        try:
            return action()
        except ApiException as error:
            if error.status != 404:
                raise
            return None

    return until("it is served", tried)


def main():
    config.load_kube_config()
    core = client.CoreV1Api()
    core.create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(name=NAMESPACE)))
    flows = {name: flow for name, flow in globals().items() if name.startswith("flow_")}
    bad = []
    for name in sys.argv[1:] or flows:
        try:
            flows[name]()
            print(f"{name}: good", flush=True)
        except Exception:  # the other tests still run
            bad.append(name)
            print(f"{name}: {traceback.format_exc()}", flush=True)
    core.delete_namespace(NAMESPACE)
    sys.exit(f"{len(bad)} of the flows failed: {', '.join(bad)}" if bad else 0)


main()
