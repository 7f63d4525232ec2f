//! The images that are known: their programs, entrypoint, command and user.
//!
//! There is no Kubernetes counterpart: a real image says so itself.

use crate::launch::install;
use crate::programs;
use file_tree::node::{Device, NodeKind, Owner};
use file_tree::volume::{DEFAULT_LIMIT_BYTES, Volume};
use jiff::Timestamp;

/// What is known about an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Image {
    pub name: &'static str,
    pub entrypoint: &'static [&'static str],
    pub command: &'static [&'static str],
    pub working_dir: &'static str,
    pub uid: u32,
    /// The TCP port on which its own command serves.
    pub port: Option<u16>,
    /// Simulated programs that only this image has, as paths.
    programs: &'static [&'static str],
    /// Usual programs that this image does not have.
    lacks: &'static [&'static str],
    /// Files that its servers read: paths and contents.
    pages: &'static [(&'static str, &'static str)],
    /// True for an image with a shell and its usual programs.
    has_shell: bool,
}

const PLAIN: Image = Image {
    name: "",
    entrypoint: &[],
    command: &[],
    working_dir: "/",
    uid: 0,
    port: None,
    programs: &[],
    lacks: &[],
    pages: &[],
    has_shell: true,
};

const NGINX_CONFIGURATION: &str = "server {\n    listen       80;\n    listen  [::]:80;\n    server_name  localhost;\n\n    \
    location / {\n        root   /usr/share/nginx/html;\n        index  index.html index.htm;\n    }\n}\n";
const NGINX_PAGE: &str = "<!DOCTYPE html>\n<html>\n<head>\n<title>Welcome to nginx!</title>\n</head>\n<body>\n\
    <h1>Welcome to nginx!</h1>\n<p>This page comes from a simulated server.</p>\n</body>\n</html>\n";

const IMAGES: [Image; 13] = [
    Image { name: "busybox", command: &["sh"], lacks: &["curl", "dig", "getent", "host"], ..PLAIN },
    Image { name: "alpine", command: &["/bin/sh"], lacks: &["curl", "dig", "host"], ..PLAIN },
    Image { name: "bash", entrypoint: &["docker-entrypoint.sh"], command: &["bash"], ..PLAIN },
    Image { name: "debian", command: &["bash"], ..PLAIN },
    Image { name: "ubuntu", command: &["/bin/bash"], ..PLAIN },
    Image { name: "centos", command: &["/bin/bash"], ..PLAIN },
    Image { name: "perl", command: &["perl", "-de0"], ..PLAIN },
    Image {
        name: "nginx",
        entrypoint: &["/docker-entrypoint.sh"],
        command: &["nginx", "-g", "daemon off;"],
        port: Some(80),
        programs: &["/usr/sbin/nginx"],
        pages: &[
            ("etc/nginx/conf.d/default.conf", NGINX_CONFIGURATION),
            ("usr/share/nginx/html/index.html", NGINX_PAGE),
        ],
        ..PLAIN
    },
    Image {
        name: "httpd",
        command: &["httpd-foreground"],
        working_dir: "/usr/local/apache2",
        port: Some(80),
        programs: &["/usr/local/bin/httpd-foreground"],
        pages: &[("usr/local/apache2/htdocs/index.html", "<html><body><h1>It works!</h1></body></html>\n")],
        ..PLAIN
    },
    Image {
        name: "redis",
        entrypoint: &["docker-entrypoint.sh"],
        command: &["redis-server"],
        working_dir: "/data",
        port: Some(6379),
        programs: &["/usr/local/bin/redis-server", "/usr/local/bin/redis-cli"],
        ..PLAIN
    },
    Image {
        name: "agnhost",
        entrypoint: &["/agnhost"],
        command: &["pause"],
        programs: &["/agnhost", "/agnhost-2"],
        ..PLAIN
    },
    Image { name: "nonewprivs", entrypoint: &["/nonewprivs"], programs: &["/nonewprivs"], ..PLAIN },
    Image { name: "pause", entrypoint: &["/pause"], uid: 65_535, programs: &["/pause"], has_shell: false, ..PLAIN },
];

/// Returns the image that a reference such as `registry.k8s.io/e2e-test-images/busybox:1.36` names.
pub fn known(reference: &str) -> Option<&'static Image> {
    let last = reference.rsplit('/').next().unwrap_or_default();
    let name = last.split([':', '@']).next().unwrap_or_default();
    IMAGES.iter().find(|image| image.name == name)
}

impl Image {
    /// Returns the words that a container runs: `command` replaces the entrypoint and the image's command, `args`
    /// replace the image's command.
    pub fn argv(&self, command: &[String], args: &[String]) -> Vec<String> {
        let own = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        match (command.is_empty(), args.is_empty()) {
            (false, _) => [command, args].concat(),
            (true, false) => [own(self.entrypoint), args.to_vec()].concat(),
            (true, true) => [own(self.entrypoint), own(self.command)].concat(),
        }
    }

    /// True for an image that exists for one program, which is no server.
    pub fn is_one_program(&self) -> bool {
        !self.programs.is_empty() && self.port.is_none()
    }

    /// Makes the files of the image.
    pub fn files(&self, now: Timestamp) -> Volume {
        let root = Owner::default();
        let volume = Volume::new(0o755, root, DEFAULT_LIMIT_BYTES, now);
        for (path, mode) in [
            ("bin", 0o755),
            ("etc", 0o755),
            ("home", 0o755),
            ("proc", 0o555),
            ("root", 0o700),
            ("run", 0o755),
            ("sys", 0o555),
            ("tmp", 0o1777),
            ("usr/bin", 0o755),
            ("usr/local/bin", 0o755),
            ("usr/sbin", 0o755),
            ("var", 0o755),
        ] {
            volume.put_folder(path, mode, root, now);
        }
        if self.working_dir != "/" {
            volume.put_folder(self.working_dir, 0o755, root, now);
        }
        volume.put_link("sbin", "bin", now);
        volume.put_link("var/run", "/run", now);
        for (path, device) in [
            ("dev/null", Device::Null),
            ("dev/zero", Device::Zero),
            ("dev/random", Device::Random),
            ("dev/urandom", Device::Random),
            ("dev/stdin", Device::Descriptor(0)),
            ("dev/stdout", Device::Descriptor(1)),
            ("dev/stderr", Device::Descriptor(2)),
        ] {
            volume.put(path, NodeKind::Device(device), 0o666, root, now);
        }
        volume.put_link("dev/fd", "/proc/self/fd", now);
        if self.has_shell {
            let shells = ["sh", "ash"].iter().chain(if self.name == "busybox" { &[][..] } else { &["bash"] });
            for name in programs::NAMES.iter().chain(shells).filter(|name| !self.lacks.contains(name)) {
                install(&volume, &format!("bin/{name}"), name, now);
            }
            // Scripts and env lines name these places.
            volume.put_link("usr/bin/env", "/bin/env", now);
            let users = "root:x:0:0:root:/root:/bin/sh\ndaemon:x:1:1:daemon:/usr/sbin:/bin/false\n\
                         nobody:x:65534:65534:nobody:/home:/bin/false\n";
            volume.put_file("etc/passwd", users, 0o644, root, now);
            let groups = "root:x:0:\ndaemon:x:1:\nnogroup:x:65534:\n";
            volume.put_file("etc/group", groups, 0o644, root, now);
        }
        let script = "#!/bin/sh\nexec \"$@\"\n";
        for word in self.entrypoint.iter().filter(|word| word.ends_with(".sh")) {
            let path = if word.starts_with('/') { (*word).to_owned() } else { format!("/usr/local/bin/{word}") };
            volume.put_file(&path, script, 0o755, root, now);
        }
        for (path, content) in self.pages {
            volume.put_file(path, *content, 0o644, root, now);
        }
        for path in self.programs {
            let name = path.rsplit('/').next().unwrap_or_default();
            install(&volume, path, if name == "agnhost-2" { "agnhost" } else { name }, now);
        }
        volume
    }
}

/// Returns an image with a shell and the usual programs, for containers whose image is not known.
pub fn plain() -> &'static Image {
    &PLAIN
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_and_args_override_the_images_own() {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        for (image, command, args, expected) in [
            ("registry.k8s.io/e2e-test-images/agnhost:2.53", "", "", "/agnhost pause"),
            ("agnhost", "", "netexec", "/agnhost netexec"),
            ("agnhost", "/agnhost-2", "", "/agnhost-2"),
            ("agnhost", "/agnhost-2", "a b", "/agnhost-2 a b"),
            ("docker.io/library/busybox@sha256:1", "", "", "sh"),
            ("busybox:1", "", "echo hi", "echo hi"),
            ("nginx:1.27", "", "", "/docker-entrypoint.sh nginx -g daemon off;"),
        ] {
            let found = known(image).unwrap().argv(&words(command), &words(args));
            assert_eq!(found.join(" "), expected, "{image}");
        }
        assert_eq!(known("example.com/shop"), None);
    }
}
