//! One flag of an original: its name, form, default, and effect in this model.

use crate::duration::{format_duration, parse_duration};
use crate::go_bool;
use crate::options::feature_gates::Notation;
use clap::{Arg, ArgAction, ArgMatches};
use serde_json::{Number, Value};
use std::net::{IpAddr, SocketAddr};

/// Form of a flag's values.
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
    /// Feature gates; the values of all occurrences are checked together.
    Gates(Notation),
    Ip,
    /// `ip:port`.
    Address,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flag {
    pub name: &'static str,
    pub form: Form,
    /// Default on the reference page; empty for none, and for the type's zero value.
    pub default: &'static str,
    pub(super) effect: Effect,
}

/// The effect of a flag in this model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// The value's form is checked, and a warning logged.
    NoEffect,
    /// The flag is a field of the component's struct, with this name and default.
    Field { flag: &'static str, default: &'static str },
}

/// Returns a flag that is accepted without effect.
pub const fn none(name: &'static str, form: Form, default: &'static str) -> Flag {
    Flag { name, form, default, effect: Effect::NoEffect }
}

/// Returns a flag that the component's struct has.
pub const fn works(name: &'static str, form: Form, default: &'static str) -> Flag {
    Flag { name, form, default, effect: Effect::Field { flag: name, default } }
}

impl Flag {
    /// Sets another default than the original's; a deviation names it.
    pub const fn but(self, default: &'static str) -> Self {
        match self.effect {
            Effect::Field { flag, .. } => Self { effect: Effect::Field { flag, default }, ..self },
            Effect::NoEffect => self,
        }
    }

    /// Sets another name in the struct; both names are accepted.
    pub const fn as_ours(self, flag: &'static str) -> Self {
        match self.effect {
            Effect::Field { default, .. } => Self { effect: Effect::Field { flag, default }, ..self },
            Effect::NoEffect => self,
        }
    }

    /// Returns true if this is the struct's flag of that name.
    pub(super) fn is(&self, long: &str) -> bool {
        matches!(self.effect, Effect::Field { flag, .. } if flag == long)
    }

    /// Makes a flag of the struct accept the original's notation.
    pub(super) fn adapt(&self, mut arg: Arg) -> Arg {
        let Effect::Field { flag, default } = self.effect else { return arg };
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

    /// Returns the clap argument of a flag without effect.
    pub(super) fn arg(&self) -> Arg {
        let form = self.form;
        let arg = Arg::new(self.name).long(self.name).hide(true).action(ArgAction::Append).allow_hyphen_values(true);
        let arg = if form == Form::Switch { as_switch(arg) } else { arg };
        arg.value_parser(move |text: &str| form.check(text).map(|()| text.to_owned()))
    }

    /// Returns the default in this model.
    pub(super) fn own_default(&self) -> &'static str {
        match self.effect {
            Effect::NoEffect => self.default,
            Effect::Field { default, .. } => default,
        }
    }

    /// Returns the value on a command line, or the default of the struct; values of a list are joined by commas.
    pub(super) fn raw_value(&self, matches: &ArgMatches) -> Option<String> {
        let id = match self.effect {
            Effect::NoEffect => self.name.to_owned(),
            Effect::Field { flag, .. } => flag.replace('-', "_"),
        };
        let values: Vec<_> = matches.try_get_raw(&id).ok()??.map(|value| value.to_string_lossy()).collect();
        if self.form == Form::List { Some(values.join(",")) } else { values.last().map(|value| value.to_string()) }
    }

    /// Returns the difference between the struct's flag and the table, if any.
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

/// Go prints whole numbers without a fraction.
fn whole_or_float(number: f64) -> Value {
    if number.fract() == 0.0 {
        (number as i64).into()
    } else {
        Number::from_f64(number).map_or(Value::Null, Value::from)
    }
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

    /// Returns a checked text as JSON, as Go prints a field of this type; an empty one is the type's zero value.
    pub(super) fn value(self, text: &str) -> Value {
        let or_zero = |text: &str| if text.is_empty() { "0".to_owned() } else { text.to_owned() };
        match self {
            Form::Switch => go_bool::parse(text).unwrap_or(false).into(),
            Form::Int => or_zero(text).parse::<i64>().map_or(Value::Null, Value::from),
            Form::Float => or_zero(text).parse::<f64>().map_or(Value::Null, whole_or_float),
            Form::Duration => parse_duration(&or_zero(text)).map_or(Value::Null, |it| format_duration(it).into()),
            Form::List if text.is_empty() => Value::Array(Vec::new()),
            Form::List => text.split(',').collect(),
            _ => text.into(),
        }
    }

    /// Returns a checked text as Go prints a flag of this type.
    pub(super) fn shown(self, text: &str) -> String {
        match self {
            Form::List => format!("[{text}]"),
            Form::Switch | Form::Int | Form::Float => self.value(text).to_string(),
            Form::Duration => self.value(text).as_str().unwrap_or_default().to_owned(),
            _ => text.to_owned(),
        }
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

    /// Returns true if two defaults mean the same.
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
