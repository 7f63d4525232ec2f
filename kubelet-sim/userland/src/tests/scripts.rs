//! The language of the shell.

use super::{START, check, run, run_in, sh};
use crate::image;
use crate::launch::launch;
use crate::process::processes::{ContainerSetup, Processes};
use file_tree::mounts::{FileTree, Mount};
use file_tree::node::Owner;
use file_tree::volume::Volume;

#[test]
fn words_are_quoted_and_expanded() {
    check(&[
        ("echo a  'b  c' \"d  $A\"", "a b  c d  x\n0"),
        ("echo \\$A \"\\$A \\n\" '\\n'", "$A $A \\n \\n\n0"),
        ("B='a  b'; echo $B \"$B\" ${B}c", "a b a  b a bc\n0"),
        ("echo ${N:-d} ${N-e} ${A:+f} ${A+g}; N=; echo [${N-e}] [${N:-d}]", "d e f g\n[] [d]\n0"),
        ("echo ${N:=v} $N; unset N; echo ${N:?gone}", "v v\n!sh: N: gone\n2"),
        ("P=/a/b.tar.gz; echo ${P##*/} ${P#*/} ${P%.*} ${P%%.*} ${#P}", "b.tar.gz a/b.tar.gz /a/b.tar /a/b 11\n0"),
        ("P=aXbXc; echo ${P/X/-} ${P//X/-} ${P:1:3} ${P: -1}", "a-bXc a-b-c XbX c\n0"),
        ("echo $(echo a; echo b) \"$(echo a; echo b)\" `echo c`", "a b a\nb c\n0"),
        ("echo $((1 + 2 * 3)) $((A2=5, A2 * 2)) $A2", "7 10 5\n0"),
        (
            "set -- a 'b c'; echo $# $1 \"$2\"; for i in \"$@\"; do echo [$i]; done; echo \"$*\"",
            "2 a b c\n[a]\n[b c]\na b c\n0",
        ),
        ("set --; for i in \"$@\"; do echo no; done; echo \"[$*]\" $#", "[] 0\n0"),
        ("IFS=:; B=a:b::c; for i in $B; do echo [$i]; done", "[a]\n[b]\n[]\n[c]\n0"),
        ("cd /etc/config; echo * *.none '*'; echo /etc/con*/?", "a b *.none *\n/etc/config/a /etc/config/b\n0"),
        ("echo ~ ~/x a~ '~'", "/root /root/x a~ ~\n0"),
        ("echo \"${N:-a b}\" ${N:-'a  b'} \"${N:-\"q\"}\"", "a b a  b q\n0"),
        ("echo \"a\nb\"; echo a\\\nb", "a\nb\nab\n0"),
        ("x=$(false); echo $?; x=1 y=$x; echo $y", "1\n1\n0"),
        ("echo $0 $$ ${10}", "sh 1\n0"),
        ("false; echo $? $!", "1\n0"),
        ("echo {a,b} a=b #c", "{a,b} a=b\n0"),
    ]);
}

#[test]
fn commands_are_joined_and_nested() {
    check(&[
        ("true && echo yes || echo no; false && echo yes || echo no", "yes\nno\n0"),
        ("! true; echo $?; ! false && echo y", "1\ny\n0"),
        ("if false; then echo a; elif true; then echo b; else echo c; fi", "b\n0"),
        ("i=0; while [ $i -lt 3 ]; do i=$((i+1)); [ $i = 2 ] && continue; echo $i; done", "1\n3\n0"),
        (
            "for i in 1 2 3; do for j in a b; do [ $j = b ] && continue 2; [ $i = 3 ] && break 2; echo $i$j; done; done",
            "1a\n2a\n0",
        ),
        ("until [ -e /tmp/x ]; do touch /tmp/x; echo t; done", "t\n0"),
        ("case abc in x) echo x;; a*|b) echo a;; *) echo o;; esac", "a\n0"),
        ("case 'a b' in \"a b\") echo q;; esac; case - in [!a-z]) echo n;; esac", "q\nn\n0"),
        ("f() { local A=in; echo $A $1; return 3; }; f arg; echo $? $A", "in arg\n3 x\n0"),
        ("(cd /etc; A=y; echo $A; exit 4); echo $? $A $PWD", "y\n4 x /\n0"),
        ("{ echo a; echo b; } | while read l; do echo [$l]; done", "[a]\n[b]\n0"),
        ("echo a | cat | tr a b; false | true; echo $?", "b\n0\n0"),
        ("set -o pipefail; false | true; echo $?", "1\n0"),
        ("eval 'B=1; echo $B'; echo 'C=2' >/tmp/s; . /tmp/s; echo $C", "1\n2\n0"),
        ("sh -c 'echo $0 $1; exit 5' name arg; echo $?", "name arg\n5\n0"),
        ("echo 'echo from $0 $1' >/tmp/s; chmod +x /tmp/s; /tmp/s a; sh /tmp/s b", "from /tmp/s a\nfrom /tmp/s b\n0"),
        ("printf 'a b:c d\\n' | { IFS=: read x y; echo \"$x|$y\"; }", "a b|c d\n0"),
        ("echo 'a b c' | { read x y; echo \"$x|$y\"; }; echo 'a\\tb' | { read -r x; echo \"$x\"; }", "a|b c\na\\tb\n0"),
        ("set -e; false || true; if false; then :; fi; echo on; false; echo off", "on\n1"),
        ("set -u; echo $NONE", "!sh: NONE: parameter not set\n2"),
        ("set -x; echo 'a b' c", "!+ echo 'a b' c\na b c\n0"),
        ("while getopts ab:c o -a -b v -c; do echo $o $OPTARG; done", "a\nb v\nc v\n0"),
        ("f() { echo f; }; command -v f echo ls none; type ls", "f\necho\n/bin/ls\nls is /bin/ls\n0"),
        ("exec echo done; echo no", "done\n0"),
        ("exit 300", "44"),
        ("f() { f; }; f", "!sh: commands are nested too deeply\n2"),
        ("readonly R=1; R=2; echo no", "!sh: R: is read only\n2"),
        ("B=1 env | grep B; echo [$B]; export B=2; sh -c 'echo $B'", "B=1\n[]\n2\n0"),
        ("shift 2>/dev/null; echo $?; set a b c; shift 2; echo $1", "1\nc\n0"),
        ("curl x; echo $?", "!sh: curl: not found\n127\n0"),
        ("/etc/hostname; echo $?", "!sh: /etc/hostname: Permission denied\n126\n0"),
    ]);
}

#[test]
fn outputs_and_inputs_are_redirected() {
    check(&[
        ("echo a >/tmp/x; echo b >>/tmp/x; cat </tmp/x; >/tmp/x; wc -c /tmp/x", "a\nb\n0 /tmp/x\n0"),
        ("cat none 2>&1 >/dev/null | tr a-z A-Z", "CAT: CAN'T OPEN 'NONE': NO SUCH FILE OR DIRECTORY\n0"),
        ("cat none /etc/hostname >/dev/null 2>&1; echo $?", "1\n0"),
        ("echo e >&2; { echo a; echo b >&2; } 2>/dev/null", "!e\na\n0"),
        ("cat <<END\na $A\n$(echo sub)\nEND\necho after", "a x\nsub\nafter\n0"),
        ("cat <<'END'\na $A\nEND", "a $A\n0"),
        ("cat <<-END\n\t\ta\n\tEND\n", "a\n0"),
        ("cat <<A; cat <<B\n1\nA\n2\nB", "1\n2\n0"),
        ("exec 3>/tmp/x; echo a >&3; exec 3>&-; cat /tmp/x; echo b >&3", "a\n!sh: 3: Bad file descriptor\n1"),
        ("while read l; do echo [$l]; done </data/words | head -n 1", "[pear]\n0"),
        ("cat < none", "!sh: can't open none: no such file\n1"),
        ("echo a > /none/x || echo no", "!sh: can't create /none/x: nonexistent directory\nno\n0"),
        ("echo hi >/dev/stderr; echo log > /proc/1/fd/1", "!hi\nlog\n0"),
        ("echo a | tee /tmp/y | cat; cat /tmp/y; (echo in; echo err >&2) >/tmp/z 2>&1; cat /tmp/z", "a\na\nin\nerr\n0"),
        ("set -C; echo a >/tmp/n; echo b >/tmp/n; cat /tmp/n", "!sh: can't create /tmp/n: File exists\na\n0"),
    ]);
}

#[test]
fn what_is_not_supported_is_refused_by_name() {
    let more = |what: &str| format!("!sh: syntax error: {what} is more than this simulated shell knows\n2");
    for (line, what) in [
        ("[[ a = a ]]", "\"[[\""),
        ("function f { :; }", "\"function\""),
        ("cat <<<a", "\"<<<\""),
        ("a=(1 2)", "an array"),
        ("diff <(a) <(b)", "\"<(\""),
        ("for ((i=0;i<3;i++)); do :; done", "\"for ((\""),
    ] {
        assert_eq!(sh(line), more(what), "{line}");
    }
    check(&[
        ("if true; then echo", "!sh: syntax error: unexpected end of file (expecting \"fi\")\n2"),
        ("fi", "!sh: syntax error: unexpected \"fi\"\n2"),
        ("a | | b", "!sh: syntax error: unexpected \"|\"\n2"),
        ("echo 'a", "!sh: syntax error: unterminated quoted string\n2"),
        ("alias x=y", "!sh: alias is more than this simulated shell knows\n2"),
    ]);
}

#[test]
fn commands_come_from_the_input_too() {
    assert_eq!(
        run(0, &["sh"], "echo a\nread x\nline\necho [$x]; if true\nthen echo b; fi\nexit 3\n"),
        "a\n[line]\nb\n3"
    );
    assert_eq!(run(0, &["cat"], "typed"), "typed0");
    assert_eq!(
        run(9, &["sh", "-c", "cat /etc/config/b; id -u; whoami"], ""),
        "!cat: can't open '/etc/config/b': Permission denied\n9\n!whoami: unknown uid 9\n1"
    );
}

#[test]
fn a_full_volume_is_an_error_of_the_command_alone() {
    let full = Volume::new(0o777, Owner::default(), 4, START);
    let mut tree = FileTree::new(image::known("busybox").unwrap().files(START), false);
    tree.mount("/d", Mount { volume: full, is_read_only: false, fs_type: "ext4".to_owned(), is_known: true }, START);
    let run = |line: &str| {
        let env = [("PATH".to_owned(), "/bin".to_owned())].into();
        let setup = ContainerSetup { env, ..ContainerSetup::bare("p", tree.clone(), START) };
        run_in(Processes::new(setup, launch), &["sh", "-c", line], "")
    };
    let full = "!sh: write error: No space left on device\n";
    assert_eq!(run("echo 12345 > /d/f; echo $?; echo 123 > /d/g; cat /d/g"), format!("{full}1\n123\n0"));
    assert_eq!(run("echo 12345 > /d/f || echo no"), format!("{full}no\n0"));
    assert_eq!(run("cat /etc/passwd > /d/f; echo $?"), "!cat: write error: No space left on device\n1\n0");
}
