//! The paths of a simulated machine that volumes of the type `hostPath` may name.
//!
//! Corresponds to checkType in pkg/volume/hostpath/host_path.go.
//!
//! Deviation: a machine has the usual folders, devices and files of Linux and no others. What a pod writes into a
//! `hostPath` volume is there for other pods of the node, but does not make a folder exist.

use proto::kinds::api::core::v1::HostPathVolumeSource;

const FOLDERS: [&str; 30] = [
    "/",
    "/bin",
    "/boot",
    "/dev",
    "/etc",
    "/etc/kubernetes",
    "/etc/ssl",
    "/etc/ssl/certs",
    "/home",
    "/lib",
    "/lib/modules",
    "/mnt",
    "/opt",
    "/proc",
    "/root",
    "/run",
    "/run/containerd",
    "/sbin",
    "/srv",
    "/sys",
    "/sys/fs/cgroup",
    "/tmp",
    "/usr",
    "/var",
    "/var/lib",
    "/var/lib/containerd",
    "/var/lib/kubelet",
    "/var/log",
    "/var/log/containers",
    "/var/log/pods",
];
const FILES: [&str; 7] = [
    "/etc/hostname",
    "/etc/hosts",
    "/etc/machine-id",
    "/etc/os-release",
    "/etc/passwd",
    "/etc/resolv.conf",
    "/var/log/syslog",
];
const SOCKETS: [&str; 2] = ["/run/containerd/containerd.sock", "/var/run/containerd/containerd.sock"];
const CHARACTER_DEVICES: [&str; 7] =
    ["/dev/full", "/dev/kmsg", "/dev/null", "/dev/random", "/dev/tty", "/dev/urandom", "/dev/zero"];
const BLOCK_DEVICES: [&str; 2] = ["/dev/sda", "/dev/sda1"];

/// Returns why the machine has nothing of the wanted type at this path.
pub fn error(source: &HostPathVolumeSource) -> Option<String> {
    let path = match source.path.trim_end_matches('/') {
        "" => "/",
        path => path,
    };
    let is_folder = FOLDERS.contains(&path);
    let is_other = FILES.contains(&path) || SOCKETS.contains(&path) || is_device(path);
    let (holds, kind) = match source.type_.as_deref().unwrap_or_default() {
        "Directory" => (is_folder, "directory"),
        "DirectoryOrCreate" => (!is_other, "directory"),
        "File" => (FILES.contains(&path), "file"),
        "FileOrCreate" => (!is_folder && !SOCKETS.contains(&path) && !is_device(path), "file"),
        "Socket" => (SOCKETS.contains(&path), "socket file"),
        "CharDevice" => (CHARACTER_DEVICES.contains(&path), "character device"),
        "BlockDevice" => (BLOCK_DEVICES.contains(&path), "block device"),
        _ => return None,
    };
    (!holds).then(|| format!("hostPath type check failed: {} is not a {kind}", source.path))
}

fn is_device(path: &str) -> bool {
    CHARACTER_DEVICES.contains(&path) || BLOCK_DEVICES.contains(&path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_to_be_of_its_type() {
        for (path, type_, fails) in [
            ("/anything", "", false),
            ("/var/log/", "Directory", false),
            ("/data", "Directory", true),
            ("/data", "DirectoryOrCreate", false),
            ("/etc/hosts", "DirectoryOrCreate", true),
            ("/etc/hosts", "File", false),
            ("/data", "File", true),
            ("/data", "FileOrCreate", false),
            ("/var", "FileOrCreate", true),
            ("/run/containerd/containerd.sock", "Socket", false),
            ("/run/docker.sock", "Socket", true),
            ("/dev/null", "CharDevice", false),
            ("/dev/null", "BlockDevice", true),
        ] {
            let source = HostPathVolumeSource { path: path.to_owned(), type_: Some(type_.to_owned()) };
            assert_eq!(error(&source).is_some(), fails, "{path} {type_}");
        }
        let source = HostPathVolumeSource { path: "/data".to_owned(), type_: Some("Socket".to_owned()) };
        assert_eq!(error(&source).unwrap(), "hostPath type check failed: /data is not a socket file");
    }
}
