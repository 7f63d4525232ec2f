//! Plots as SVG, drawn by plotters. Text is left to whoever shows the picture, so no font is needed and the bytes are the
//! same everywhere.

use crate::units::rounded;
use plotters::prelude::*;

const SIZE: (u32, u32) = (720, 360);

/// Colours that people with colour blindness can tell apart (Okabe and Ito's).
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(230, 159, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(213, 94, 0),
    RGBColor(86, 180, 233),
    RGBColor(0, 0, 0),
];

/// A line with a band around it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    pub name: String,
    /// x, y, and the ends of the band.
    pub points: Vec<(f64, f64, f64, f64)>,
}

/// Draws lines with their bands.
pub fn lines(title: &str, x: &str, y: &str, all: &[Series]) -> Result<String, String> {
    let points = || all.iter().flat_map(|series| &series.points);
    let end = points().map(|point| point.0).fold(0.0, f64::max);
    let top = points().map(|point| point.3).fold(0.0, f64::max);
    let (end, top) = (if end > 0.0 { end } else { 1.0 }, if top > 0.0 { top * 1.05 } else { 1.0 });
    let mut svg = String::new();
    draw(&mut svg, title, (x, end), (y, top), all).map_err(|error| error.to_string())?;
    Ok(svg)
}

fn draw(
    svg: &mut String,
    title: &str,
    (x, end): (&str, f64),
    (y, top): (&str, f64),
    all: &[Series],
) -> Result<(), Box<dyn std::error::Error>> {
    let area = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .caption(title, ("sans-serif", 18))
        .margin(10)
        .x_label_area_size(40)
        .y_label_area_size(60)
        .build_cartesian_2d(0.0..end, 0.0..top)?;
    let label = |number: &f64| rounded(*number).to_string();
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .x_desc(x)
        .y_desc(y)
        .x_label_formatter(&label)
        .y_label_formatter(&label)
        .draw()?;
    for (series, colour) in all.iter().zip(COLOURS.iter().cycle()) {
        let above = series.points.iter().map(|point| (point.0, point.3));
        let below = series.points.iter().rev().map(|point| (point.0, point.2));
        let band: Vec<(f64, f64)> = above.chain(below).collect();
        chart.draw_series(std::iter::once(Polygon::new(band, colour.mix(0.15))))?;
        let line = LineSeries::new(series.points.iter().map(|point| (point.0, point.1)), colour.stroke_width(2));
        let colour = *colour;
        chart
            .draw_series(line)?
            .label(series.name.as_str())
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
    }
    if !all.is_empty() {
        let legend = SeriesLabelPosition::UpperRight;
        chart.configure_series_labels().position(legend).background_style(WHITE.mix(0.8)).border_style(BLACK).draw()?;
    }
    area.present()?;
    Ok(())
}
