//! Tests of the table, the command line and the struct of a made-up original.

use super::Form::{Address, Duration, Float, Gates, Int, Ip, List, Pairs, Switch, Text};
use super::*;
use crate::options::feature_gates::Notation;
use clap::Parser;

#[derive(Clone, Debug)]
struct KubeThing;

impl Original for KubeThing {
    const NAME: &'static str = "kube-thing";
    const FLAGS: &'static [&'static [Flag]] = &[
        &[
            works("port", Int, "10250").as_ours("secure-port"),
            works("share", Switch, ""),
            works("mode", Text, "loud").but("quiet"),
        ],
        &[
            none("rate", Float, "5"),
            none("period", Duration, "1m0s"),
            none("count", Int, ""),
            none("names", List, ""),
            none("labels", Pairs, ""),
            none("feature-gates", Gates(Notation::Grouped), ""),
            none("address", Ip, ""),
            none("metrics-address", Address, ""),
            none("profiling", Switch, "true"),
        ],
    ];
}

#[derive(Parser, Debug)]
#[command(name = "thing")]
struct Config {
    #[command(flatten)]
    original: OriginalFlags<KubeThing>,
    /// Where
    #[arg(long)]
    secure_port: Option<u16>,
    /// Whether
    #[arg(long, default_value_t = false, action = clap::ArgAction::Set)]
    share: bool,
    /// How
    #[arg(long, default_value = "quiet")]
    mode: String,
    /// Of our own
    #[arg(long)]
    seed: Option<u64>,
}

fn parse(flags: &[&str]) -> Result<Config, String> {
    Config::try_parse_from([&["thing"], flags].concat()).map_err(|error| error.to_string())
}

#[test]
fn flags_with_an_effect_are_the_structs() {
    let config = parse(&[]).unwrap();
    assert_eq!(
        (config.secure_port, config.share, config.mode.as_str(), config.seed),
        (Some(10250), false, "quiet", None)
    );
    assert_eq!(config.original.warnings().count(), 0);
    let config = parse(&["--port=7", "--share", "--mode=loud", "--seed=3"]).unwrap();
    assert_eq!((config.secure_port, config.share, config.mode.as_str(), config.seed), (Some(7), true, "loud", Some(3)));
    assert!(config.original.has("mode") && !parse(&[]).unwrap().original.has("mode"));
    // The last one counts, as for the original.
    let config = parse(&["--secure-port=8", "--port=9", "--share", "--share=F"]).unwrap();
    assert_eq!((config.secure_port, config.share), (Some(9), false));
}

#[test]
fn flags_without_effect_are_checked_and_reported_once() {
    let config = parse(&["--names=a,b", "--names", "c", "--profiling", "--count=-3"]).unwrap();
    let warnings: Vec<String> = config.original.warnings().collect();
    let expected = ["count", "names", "profiling"];
    let expected = expected.map(|name| format!("--{name} is accepted as by kube-thing, and has no effect here"));
    assert_eq!(warnings, expected);
    for (right, wrong) in [
        ("--rate=0.5", "--rate=fast"),
        ("--period=1h0m0s", "--period=5"),
        ("--count=0", "--count=many"),
        ("--labels=a=b,c=", "--labels=a"),
        ("--feature-gates=WatchList=false", "--feature-gates=WatchList=perhaps"),
        ("--address=::1", "--address=here"),
        ("--metrics-address=127.0.0.1:1", "--metrics-address=127.0.0.1"),
        ("--profiling=false", "--profiling=no"),
    ] {
        assert_eq!(parse(&[right]).unwrap().original.warnings().count(), 1, "{right}");
        let error = parse(&[wrong]).unwrap_err();
        assert!(error.starts_with("error: invalid value"), "{error}");
    }
    let gates = parse(&["--feature-gates=WatchList=true", "--feature-gates=KMSv1=false,AllAlpha=1"]).unwrap();
    let warnings: Vec<String> = gates.original.warnings().collect();
    let leaving = "Setting deprecated feature gate KMSv1=false. It will be removed in a future release.";
    let no_effect = "--feature-gates: AllAlpha=true is accepted as by kube-thing, and has no effect here";
    assert_eq!(warnings, [no_effect, leaving]);
    let unknown = parse(&["--feature-gates=WatchList=true", "--feature-gates=Watchlist=true"]).unwrap_err();
    let expected = "error: invalid value for '--feature-gates': unrecognized feature gate: Watchlist";
    assert!(unknown.starts_with(expected), "{unknown}");
    let unknown = parse(&["--kount=1"]).unwrap_err();
    assert!(unknown.starts_with("error: unexpected argument '--kount' found"), "{unknown}");
}

#[test]
fn the_version_is_printed_or_reported() {
    let reported = |flags: &[&str]| parse(flags).map(|config| config.original.version().to_owned());
    assert_eq!(reported(&[]).unwrap(), "v1.36.2");
    assert_eq!(reported(&["--version=false"]).unwrap(), "v1.36.2");
    assert_eq!(reported(&["--version=v1.36.2-lab.1"]).unwrap(), "v1.36.2-lab.1");
    for (flags, expected) in [
        (&["--version"][..], "Kubernetes v1.36.2"),
        (&["-V"], "Kubernetes v1.36.2"),
        (&["--version=true", "--feature-gates=None=true"], "Kubernetes v1.36.2"),
        (&["--version=raw"], "version.Info{Major:\"1\", Minor:\"36\", "),
    ] {
        let printed = Config::try_parse_from([&["thing"], flags].concat()).unwrap_err();
        assert_eq!(printed.kind(), ErrorKind::DisplayVersion);
        assert!(printed.to_string().contains(expected), "{printed}");
    }
    let wrong = parse(&["--version=v1.35.0"]).unwrap_err();
    assert!(
        wrong.contains("version \"v1.35.0\" must match major/minor/patch of default version \"v1.36.2\""),
        "{wrong}"
    );
}

#[test]
fn the_help_tells_them_apart() {
    let help = <Config as clap::CommandFactory>::command().render_help().to_string();
    let place = |text: &str| help.find(text).unwrap_or_else(|| panic!("{text:?} is not in:\n{help}"));
    assert!(place("Flags of the original:") < place("--secure-port"));
    assert!(place("Flags of this model:") < place("--seed"));
    assert!(place("without effect here") < place("--rate --period --count"));
    assert_eq!(help.matches("--rate").count(), 1);
}

#[test]
fn a_table_that_does_not_fit_its_struct_is_found_out() {
    assert_eq!(disagreements::<KubeThing, Config>(), [""; 0]);

    #[derive(Clone, Debug)]
    struct Wrong;
    impl Original for Wrong {
        const NAME: &'static str = "wrong";
        const FLAGS: &'static [&'static [Flag]] = &[
            &[works("mode", Text, "loud"), none("share", Switch, ""), works("gone", Int, "")],
            &[none("rate", Float, "5"), none("rate", Float, "5")],
        ];
    }
    #[derive(Parser)]
    struct Other {
        #[command(flatten)]
        _original: OriginalFlags<Wrong>,
        #[arg(long, default_value = "quiet")]
        _mode: String,
        #[arg(long)]
        _share: bool,
    }
    let found = disagreements::<Wrong, Other>();
    assert_eq!(found.len(), 4, "{found:?}");
}
