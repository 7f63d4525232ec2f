//! One flag of an original: its name, what its values look like, its default, and what becomes of it here.

use crate::duration::parse_duration;
use crate::go_bool;
use crate::options::feature_gates::Notation;
use clap::{Arg, ArgAction};
use std::net::{IpAddr, SocketAddr};

/// What a flag's values look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `--flag`, `--flag=true`, `--flag=false`.
    Switch,
    Int,
    Float,
    Duration,
    Text,
    /// Separated by commas.
    List,
    /// `name=value`, separated by commas.
    Pairs,
    /// `name=true`, separated by commas.
    Switches,
    /// Feature gates; what all occurrences say is checked together.
    Gates(Notation),
    Ip,
    /// `ip:port`.
    Address,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flag {
    pub name: &'static str,
    pub form: Form,
    /// As the reference page has it; empty for none, and for what its type begins with.
    pub default: &'static str,
    pub(super) here: Here,
}

/// What becomes of a flag here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Here {
    /// Checked for its type, and reported.
    NoEffect,
    /// It is a field of the component's struct: the flag's name there, and its default here.
    Works { flag: &'static str, default: &'static str },
}

/// A flag that is accepted and changes nothing.
pub const fn none(name: &'static str, form: Form, default: &'static str) -> Flag {
    Flag { name, form, default, here: Here::NoEffect }
}

/// A flag that the component's struct has.
pub const fn works(name: &'static str, form: Form, default: &'static str) -> Flag {
    Flag { name, form, default, here: Here::Works { flag: name, default } }
}

impl Flag {
    /// The default here is another one, which the deviations name.
    pub const fn but(self, default: &'static str) -> Self {
        match self.here {
            Here::Works { flag, .. } => Self { here: Here::Works { flag, default }, ..self },
            Here::NoEffect => self,
        }
    }

    /// The struct calls it otherwise; both names are accepted.
    pub const fn as_ours(self, flag: &'static str) -> Self {
        match self.here {
            Here::Works { default, .. } => Self { here: Here::Works { flag, default }, ..self },
            Here::NoEffect => self,
        }
    }

    /// Whether it is this flag of the struct.
    pub(super) fn is(&self, long: &str) -> bool {
        matches!(self.here, Here::Works { flag, .. } if flag == long)
    }

    /// Makes a flag of the struct take what the original takes.
    pub(super) fn adapt(&self, mut arg: Arg) -> Arg {
        let Here::Works { flag, default } = self.here else { return arg };
        if flag != self.name {
            arg = arg.visible_alias(self.name);
        }
        if arg.get_default_values().is_empty() && !default.is_empty() {
            arg = arg.default_value(default);
        }
        if self.form == Form::Switch {
            arg = as_switch(arg).action(ArgAction::Set).value_parser(go_bool::parse);
        }
        arg
    }

    /// The flag of one without effect.
    pub(super) fn arg(&self) -> Arg {
        let form = self.form;
        let arg = Arg::new(self.name).long(self.name).hide(true).action(ArgAction::Append).allow_hyphen_values(true);
        let arg = if form == Form::Switch { as_switch(arg) } else { arg };
        arg.value_parser(move |text: &str| form.check(text).map(|()| text.to_owned()))
    }

    /// How the struct's flag differs from what the table says of it.
    pub(super) fn disagreement(&self, arg: &Arg, default: &str) -> Option<String> {
        let values: Vec<_> = arg.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
        let value = values.join(",");
        (!self.form.is_same(&value, default))
            .then(|| format!("--{} is {value:?} by default, and not {default:?}", self.name))
    }
}

fn as_switch(arg: Arg) -> Arg {
    arg.num_args(0..=1).require_equals(true).default_missing_value("true")
}

impl Form {
    fn check(self, text: &str) -> Result<(), String> {
        let each = |check: fn(&str) -> bool| text.is_empty() || text.split(',').all(check);
        let is_well_formed = match self {
            Form::Switch => return go_bool::parse(text).map(drop),
            Form::Duration => return parse_duration(text.strip_prefix('-').unwrap_or(text)).map(drop),
            Form::Int => text.parse::<i64>().is_ok(),
            Form::Float => text.parse::<f64>().is_ok(),
            Form::Text | Form::List | Form::Gates(_) => true,
            Form::Pairs => each(|pair| pair.split_once('=').is_some_and(|(name, _)| !name.is_empty())),
            Form::Switches => each(|pair| {
                pair.split_once('=').is_some_and(|(name, value)| !name.is_empty() && go_bool::parse(value).is_ok())
            }),
            Form::Ip => text.parse::<IpAddr>().is_ok(),
            Form::Address => text.is_empty() || text.parse::<SocketAddr>().is_ok(),
        };
        if is_well_formed { Ok(()) } else { Err(format!("want {}", self.described())) }
    }

    fn described(self) -> &'static str {
        match self {
            Form::Switch => "true or false",
            Form::Int => "a whole number",
            Form::Float => "a number",
            Form::Duration => "a duration",
            Form::Text => "a text",
            Form::List => "a list",
            Form::Pairs => "name=value, separated by commas",
            Form::Switches | Form::Gates(_) => "name=true or name=false, separated by commas",
            Form::Ip => "an IP address",
            Form::Address => "IP:PORT",
        }
    }

    /// Whether two defaults mean the same.
    fn is_same(self, one: &str, other: &str) -> bool {
        let number = |text: &str| if text.is_empty() { Some(0.0) } else { text.parse::<f64>().ok() };
        let time = |text: &str| if text.is_empty() { parse_duration("0").ok() } else { parse_duration(text).ok() };
        one == other
            || match self {
                Form::Int | Form::Float => number(one) == number(other),
                Form::Duration => time(one) == time(other),
                Form::Switch => [one, other].iter().all(|text| text.is_empty() || *text == "false"),
                _ => false,
            }
    }
}
