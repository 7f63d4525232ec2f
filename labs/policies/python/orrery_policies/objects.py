"""``Object``, a pod or a node as the scheduler sends it."""


class Object(dict):
    """A dict with short names for what policies read often."""

    @property
    def metadata(self):
        return self.get("metadata") or {}

    @property
    def spec(self):
        return self.get("spec") or {}

    @property
    def status(self):
        return self.get("status") or {}

    @property
    def name(self):
        return self.metadata.get("name", "")

    @property
    def namespace(self):
        return self.metadata.get("namespace", "")

    @property
    def uid(self):
        return self.metadata.get("uid", "")

    @property
    def labels(self):
        return self.metadata.get("labels") or {}

    @property
    def annotations(self):
        return self.metadata.get("annotations") or {}
