//! The programs, as busybox prints.

use super::{check, sh};

#[test]
fn text_is_filtered() {
    check(&[
        ("sort /data/words | uniq -c", "      2 apple\n      1 fig\n      1 pear\n0"),
        ("sort -u /data/words | tail -n 1; sort -r /data/words | head -1", "pear\npear\n0"),
        ("sort -k2nr /data/table | cut -d' ' -f1,3", "three c\ntwo b\none a\n0"),
        (
            "grep -n p /data/words; grep -c apple /data/words; grep -v p /data/words",
            "1:pear\n2:apple\n4:apple\n2\nfig\n0",
        ),
        (
            "grep -q none /data/words; echo $?; grep x /none; echo $?",
            "1\n!grep: /none: No such file or directory\n2\n0",
        ),
        ("grep -oE '[0-9]+' /data/table | tr '\\n' ,; grep -r two /data", "1,2,3,/data/table:two 2 b\n0"),
        (
            "sed -n '2,3p;$=' /data/words; sed 's/\\(.\\)p/[\\1]/g;1d' /data/words",
            "apple\nfig\n4\n[a]ple\nfig\n[a]ple\n0",
        ),
        ("sed -i 's/fig/FIG/' /data/words; sed '/FIG/!d' /data/words; echo a/b | sed 's|/|-|'", "FIG\na-b\n0"),
        (
            "awk '{print $2, $NF}' /data/table | head -n1; awk -F: 'NR==1{print $1}' /etc/passwd; awk '/two/ {print \"n=\" $2}' /data/table",
            "1 a\nroot\nn=2\n0",
        ),
        (
            "wc /data/words; wc -l </data/words; echo one two | wc",
            "        4         4        21 /data/words\n4\n        1         2         8\n0",
        ),
        ("tail -c 3 /data/words; tail -n +4 /data/words; head -c 2 /data/words", "le\napple\npe0"),
        ("echo abc | tr -d b; echo aabb | tr -s a; echo Hi | tr '[:upper:]' '[:lower:]'", "ac\nabb\nhi\n0"),
        ("seq 3; seq 2 2 6 | xargs; seq 5 -2 1 | xargs -n 2 echo", "1\n2\n3\n2 4 6\n5 3\n1\n0"),
        (
            "printf '%s-%03d|%5s|%-3s|%x\\n' a 7 b c 255; printf '%s\\n' 1 2; printf 'a\\tb%%'",
            "a-007|    b|c  |ff\n1\n2\na\tb%0",
        ),
        ("echo -e 'a\\tb\\c' x; echo -n y; echo -n -e '\\x41\\0102'", "a\tbyAB0"),
        (
            "echo hi | sha256sum; echo -n hi | md5sum; echo hi | base64; echo aGkK | base64 -d",
            "98ea6e4f216f2fb4b69fff9b3a44842c38686ca685f3f55dc48c5d3fb1107be4  -\n49f68a5c8493ec2c0bf489821c21fc3b  -\naGkK\nhi\n0",
        ),
        ("expr 2 + 3 \\* 4; expr abc : 'a\\(.*\\)'; expr 1 = 2", "14\nbc\n0\n1"),
        ("yes | head -n 2; echo $?", "y\ny\n0\n0"),
        ("find /data -type f -name 't*'; find /etc/config -name a -exec cat {} \\;", "/data/table\n10"),
        ("find /data -type f | sort | xargs -I{} basename {}", "table\nwords\n0"),
    ]);
}

#[test]
fn files_are_made_and_moved() {
    check(&[
        (
            "mkdir -p /tmp/a/b && touch /tmp/a/b/c && ls -R /tmp/a; rmdir /tmp/a",
            "/tmp/a:\nb\n\n/tmp/a/b:\nc\n!rmdir: '/tmp/a': Directory not empty\n1",
        ),
        (
            "cd /tmp; echo 1 >a; cp a b; mv b c; ln -s a l; ln a h; ls; cat l h c; readlink l; readlink -f l",
            "a\nc\nh\nl\n1\n1\n1\na\n/tmp/a\n0",
        ),
        (
            "cd /tmp; mkdir d; echo x >d/f; cp -r d e; rm -rf d; cat e/f; rm e; rm -f none; rm none",
            "x\n!rm: 'e' is a directory\nrm: can't remove 'none': No such file or directory\n1",
        ),
        (
            "cd /tmp; touch a; chmod 640 a; stat -c '%a %U %G %s %F' a; chmod u+x,g-r a; ls -l a",
            "640 root root 0 regular empty file\n-rwx------    1 root     root             0 Jan  1 00:00 a\n0",
        ),
        (
            "cd /tmp; touch a; chown 5:6 a; stat -c %u:%g a; umask; umask 077; touch b; stat -c %a b",
            "5:6\n0022\n600\n0",
        ),
        (
            "ls none; ls -ld /tmp; ls -a /data",
            "!ls: none: No such file or directory\ndrwxrwxrwt    2 root     root          4096 Jan  1 00:00 /tmp\n.\n..\ntable\nwords\n0",
        ),
        ("cat /etc; echo $?", "!cat: /etc: Is a directory\n1\n0"),
        ("dd if=/dev/zero of=/tmp/z bs=1k count=2 status=none; wc -c </tmp/z; du -k /tmp/z | cut -f1", "2048\n0"),
        ("[ -f /etc/hostname ] && [ ! -d /etc/hostname -a -s /etc/hostname ] && test a != b -o x && echo y", "y\n0"),
        (
            "[ 1 -lt 2 ]; echo $?; [ a = b ]; echo $?; [ x; echo $?; [ a -eq 1 ]; echo $?",
            "0\n1\n![: missing ]\n2\n![: a: bad number\n2\n0",
        ),
        ("cd /data; tar cf - words table | (cd /tmp && tar xvf -); cat /tmp/words | head -n1", "words\ntable\npear\n0"),
        ("tar czf - /data; echo $?", "!tar: compressed archives are more than this simulated tar knows\n1\n0"),
        (
            "basename /a/b.c .c; dirname /a/b.c; dirname x; realpath /etc/../data; which ls",
            "b\n/a\n.\n/data\n/bin/ls\n0",
        ),
        (
            "id; hostname; uname -sm; nproc; pwd; date +%s",
            "uid=0(root) gid=0(root) groups=0(root),7\nweb-0\nLinux x86_64\n2\n/\n0\n0",
        ),
        ("env -i B=1 env; printenv A NONE", "B=1\nx\n1"),
        (
            "mount | head -n 1; df / | tail -n 1 | awk '{print $1, $6}'",
            "overlay on / type overlay (rw,relatime)\noverlay /\n0",
        ),
        ("ls -Z", "!ls: unrecognized option: Z\n1"),
    ]);
}

#[test]
fn an_archive_holds_links_folders_and_long_names() {
    let long = "n".repeat(120);
    let line = format!(
        "mkdir -p /tmp/a/d; echo 1 >/tmp/a/d/{long}; ln -s d /tmp/a/l; chmod 700 /tmp/a/d; cd /tmp/a; tar cf /tmp/x.tar .; \
         mkdir /tmp/b; tar xf /tmp/x.tar -C /tmp/b; cat /tmp/b/l/{long}; stat -c %a /tmp/b/d; tar tf /tmp/x.tar | wc -l"
    );
    assert_eq!(sh(&line), "1\n700\n4\n0");
}

#[test]
fn agnhost_looks_at_files() {
    let run = |words: &[&str]| {
        let files = crate::image::known("agnhost").unwrap().files(super::START);
        let setup = crate::process::processes::ContainerSetup {
            hostname: "web-0".to_owned(),
            tree: file_tree::mounts::FileTree::new(files, false),
            env: Default::default(),
            uid: 1001,
            gid: 7,
            groups: Vec::new(),
            working_dir: "/".to_owned(),
            started_at: super::START,
        };
        let mut processes = crate::process::processes::Processes::new(setup, crate::launch::launch);
        let streams = crate::process::streams::Streams::of_log(false, false);
        let pid = processes.start(super::words(words), streams).unwrap();
        processes.advance_to(super::START + std::time::Duration::from_secs(500));
        let text: String =
            processes.outputs(pid).iter().map(|output| String::from_utf8_lossy(&output.bytes).into_owned()).collect();
        format!("{text}{:?}", processes.end_of(pid).map(|(_, status)| status.code()))
    };
    let new = "content of file \"/tmp/f\": mount-tester new file\n\n";
    for (words, expected) in [
        (
            &["mounttest", "--file_perm=/tmp/f", "--new_file_0660=/tmp/f", "--file_owner=/tmp/f"][..],
            format!(
                "{new}perms of file \"/tmp/f\": -rw-rw----\nowner UID of \"/tmp/f\": 1001\nowner GID of \"/tmp/f\": 7\nSome(0)"
            ),
        ),
        (&["mounttest", "--file_mode", "/tmp"], "mode of file \"/tmp\": dtrwxrwxrwx\nSome(0)".to_owned()),
        (&["mounttest", "--fs_type=/tmp"], "mount type of \"/tmp\": 2035054128\nSome(0)".to_owned()),
        (
            &["mounttest", "--file_content=/none"],
            "error reading file content for \"/none\": open /none: no such file or directory\nSome(1)".to_owned(),
        ),
        (&["entrypoint-tester", "a", "b"], "[/agnhost entrypoint-tester a b]\nSome(0)".to_owned()),
        (&["pause"], "Paused\nNone".to_owned()),
        (&["nothing"], "Error: unknown command \"nothing\" for \"app\"\nSome(1)".to_owned()),
    ] {
        let argv: Vec<&str> = std::iter::once("/agnhost").chain(words.iter().copied()).collect();
        assert_eq!(run(&argv), expected, "{words:?}");
    }
    assert_eq!(run(&["/agnhost", "logs-generator", "-t", "20", "-d", "10s"]).lines().count(), 21);
}
