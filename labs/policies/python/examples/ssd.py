from orrery_policies import Extender
policy = Extender(port=8888)

@policy.filter
def has_ssd(pod, node):
    return node.labels.get("disk") == "ssd" or "node(s) had no ssd"

@policy.score
def likes_quiet_nodes(pod, node):
    return 10 if "quiet" in node.labels else 0

policy.run()
