//! `FunctionShape`: a function from utilisation to score, as a line through points.
//!
//! Corresponds to UtilizationShapePoint of k8s.io/kube-scheduler/config/v1, to validateFunctionShape, and to
//! BuildBrokenLinearFunction of pkg/scheduler/framework/plugins/helper.

use proto::meta::status::FieldError;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// Highest utilisation, in percent.
pub const MAX_UTILIZATION: i64 = 100;
/// Highest score of a point.
pub const MAX_CUSTOM_SCORE: i64 = 10;

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ShapePoint {
    /// Utilisation in percent.
    pub utilization: i64,
    /// Score between 0 and 10.
    pub score: i64,
}

/// Points in increasing order of utilisation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FunctionShape(pub Vec<ShapePoint>);

impl FunctionShape {
    /// Returns the score times `scale` at a utilisation. Between two points the function is a line, and outside of them it
    /// is constant.
    pub fn at(&self, utilization: i64, scale: i64) -> i64 {
        let Some(next) = self.0.iter().position(|point| utilization <= point.utilization) else {
            return self.0.last().map_or(0, |last| last.score * scale);
        };
        let right = self.0[next];
        let Some(left) = next.checked_sub(1).map(|previous| self.0[previous]) else { return right.score * scale };
        let rise = (right.score - left.score) * scale;
        left.score * scale + rise * (utilization - left.utilization) / (right.utilization - left.utilization)
    }

    pub fn validate(&self, path: &str, errors: &mut Vec<FieldError>) {
        if self.0.is_empty() {
            return errors.push(FieldError::required(path, "at least one point must be specified"));
        }
        let is_unordered = |pair: &[ShapePoint]| pair[0].utilization >= pair[1].utilization;
        if let Some(at) = self.0.windows(2).position(is_unordered) {
            let (path, value) = (format!("{path}[{}].utilization", at + 1), json!(self.0[at + 1].utilization));
            errors.push(FieldError::invalid(path, &value, "utilization values must be sorted in increasing order"));
        }
        for (at, point) in self.0.iter().enumerate() {
            let parts = [("utilization", point.utilization, MAX_UTILIZATION), ("score", point.score, MAX_CUSTOM_SCORE)];
            for (name, value, most) in parts.into_iter().filter(|(_, value, most)| !(0..=*most).contains(value)) {
                let (path, why) = (format!("{path}[{at}].{name}"), format!("not in valid range [0, {most}]"));
                errors.push(FieldError::invalid(path, &json!(value), why));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_a_line_between_points_and_constant_outside() {
        let shape = FunctionShape(vec![
            ShapePoint { utilization: 20, score: 0 },
            ShapePoint { utilization: 70, score: 10 },
            ShapePoint { utilization: 100, score: 5 },
        ]);
        for (utilization, expected) in [(0, 0), (20, 0), (45, 50), (70, 100), (85, 75), (100, 50), (120, 50)] {
            assert_eq!(shape.at(utilization, 10), expected, "{utilization}");
        }
    }
}
