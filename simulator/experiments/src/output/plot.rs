//! Plots as SVG and PNG, drawn by plotters. A font that is compiled in measures the text, and draws it into pixels, so the
//! bytes are the same everywhere.

use crate::units::rounded;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::register_font;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::error::Error;
use std::sync::OnceLock;

/// Width and height of the picture, and of its part for the names of lines, on a screen of ordinary resolution.
const SIZE: (u32, u32) = (760, 360);
const LEGEND: u32 = 150;
/// Pixels of a PNG for each of these, so that it is sharp in print.
const PNG_SCALE: u32 = 2;
const FONT: &str = "sans-serif";

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
const GRID: RGBColor = RGBColor(225, 225, 225);
const AXIS: RGBColor = RGBColor(130, 130, 130);

/// Width of a line, and what is added to it for each line that covers it.
const LINE: u32 = 2;
const WIDER: u32 = 3;
/// Part of the height within which two lines are at the same place, and part of a line that another one has to cover.
const NEAR: f64 = 0.01;
const COVERED: f64 = 0.9;

/// x, y, and the ends of the band.
pub type Point = (f64, f64, f64, f64);

/// A line with a band around it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    pub name: String,
    pub points: Vec<Point>,
}

/// Lines over time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plot {
    pub title: String,
    pub x: String,
    pub y: String,
    pub series: Vec<Series>,
}

impl Plot {
    /// Returns the text of an SVG picture.
    pub fn svg(&self) -> Result<String, String> {
        let mut svg = String::new();
        let drawn = fonts().and_then(|()| {
            let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
            self.draw(&area, 1).map_err(|error| error.to_string())
        });
        drawn.map(|()| svg)
    }

    /// Returns the bytes of a PNG picture.
    pub fn png(&self) -> Result<Vec<u8>, String> {
        fonts()?;
        let (width, height) = (SIZE.0 * PNG_SCALE, SIZE.1 * PNG_SCALE);
        let mut pixels = vec![0; (width * height * 3) as usize];
        {
            let area = BitMapBackend::with_buffer(&mut pixels, (width, height)).into_drawing_area();
            self.draw(&area, PNG_SCALE).map_err(|error| error.to_string())?;
        }
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, width, height);
        encoder.set_color(png::ColorType::Rgb);
        let mut writer = encoder.write_header().map_err(|error| error.to_string())?;
        writer.write_image_data(&pixels).map_err(|error| error.to_string())?;
        writer.finish().map_err(|error| error.to_string())?;
        Ok(bytes)
    }

    /// Returns the width of each line. One that lies below others, because they are the same, is wider than these.
    fn widths(&self, top: f64) -> Vec<u32> {
        let all = &self.series;
        let covers = |series: &Series, other: &Series| {
            let is_near = |(one, two): (&Point, &Point)| (one.1 - two.1).abs() <= top * NEAR;
            let near = series.points.iter().zip(&other.points).filter(|pair| is_near(*pair)).count();
            near as f64 >= series.points.len() as f64 * COVERED
        };
        let later = |place: usize| all[place + 1..].iter().filter(move |other| covers(&all[place], other)).count();
        (0..all.len()).map(|place| LINE + WIDER * u32::try_from(later(place)).unwrap_or_default()).collect()
    }

    fn draw<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>, scale: u32) -> Result<(), Box<dyn Error>>
    where
        B::ErrorType: 'static,
    {
        let points = || self.series.iter().flat_map(|series| &series.points);
        let end = points().map(|point| point.0).fold(0.0, f64::max);
        let top = points().map(|point| point.3).fold(0.0, f64::max);
        let (end, top) = (if end > 0.0 { end } else { 1.0 }, if top > 0.0 { top * 1.05 } else { 1.0 });
        area.fill(&WHITE)?;
        let (picture, legend) = area.split_horizontally((SIZE.0 - LEGEND) * scale);
        let mut chart = ChartBuilder::on(&picture)
            .caption(&self.title, (FONT, 18 * scale))
            .margin(10 * scale)
            .x_label_area_size(42 * scale)
            .y_label_area_size(62 * scale)
            .build_cartesian_2d(0.0..end, 0.0..top)?;
        let label = |number: &f64| rounded(*number).to_string();
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(GRID.stroke_width(scale))
            .axis_style(AXIS.stroke_width(scale))
            .label_style((FONT, 13 * scale))
            .axis_desc_style((FONT, 14 * scale))
            .x_desc(&self.x)
            .y_desc(&self.y)
            .x_label_formatter(&label)
            .y_label_formatter(&label)
            .draw()?;
        let coloured = || self.series.iter().zip(COLOURS.iter().cycle());
        // All bands lie below all lines.
        for (series, colour) in coloured() {
            let above = series.points.iter().map(|point| (point.0, point.3));
            let below = series.points.iter().rev().map(|point| (point.0, point.2));
            let band: Vec<(f64, f64)> = above.chain(below).collect();
            chart.draw_series(std::iter::once(Polygon::new(band, colour.mix(0.15))))?;
        }
        for ((series, colour), width) in coloured().zip(self.widths(top)) {
            let line = series.points.iter().map(|point| (point.0, point.1));
            let style = colour.stroke_width(width * scale);
            if scale == 1 {
                chart.draw_series(LineSeries::new(line, style))?;
            } else {
                // In pixels a path has pointed corners, whose tips leave the picture where a line turns sharply.
                chart.draw_series(pieces(line).map(|piece| PathElement::new(piece, style)))?;
            }
        }
        let style = TextStyle::from((FONT, 13 * scale)).pos(Pos::new(HPos::Left, VPos::Center));
        let unit = i32::try_from(scale)?;
        for (place, (series, colour)) in (0..).zip(coloured()) {
            let y = (48 + 22 * place) * unit;
            legend.draw(&PathElement::new([(0, y), (22 * unit, y)], colour.stroke_width(LINE * scale)))?;
            legend.draw(&Text::new(series.name.as_str(), (28 * unit, y), style.clone()))?;
        }
        area.present()?;
        Ok(())
    }
}

/// Returns the pieces of a line between one point and the next.
fn pieces(line: impl Iterator<Item = (f64, f64)> + Clone) -> impl Iterator<Item = [(f64, f64); 2]> {
    line.clone().zip(line.skip(1)).map(|(from, to)| [from, to])
}

/// Makes the font known, once.
fn fonts() -> Result<(), String> {
    static KNOWN: OnceLock<bool> = OnceLock::new();
    let register = || register_font(FONT, FontStyle::Normal, epaint_default_fonts::UBUNTU_LIGHT).is_ok();
    if *KNOWN.get_or_init(register) { Ok(()) } else { Err("the font of plots is unreadable".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_below_another_one_is_wider() {
        let of = |ys: [f64; 3]| Series { points: ys.map(|y| (0.0, y, y, y)).to_vec(), ..Series::default() };
        let plot = |series: &[[f64; 3]]| Plot { series: series.iter().copied().map(of).collect(), ..Plot::default() };
        assert_eq!(plot(&[[1.0, 5.0, 9.0], [1.0, 6.0, 9.0]]).widths(10.0), [2, 2]);
        assert_eq!(plot(&[[1.0, 5.0, 9.0], [1.0, 6.0, 9.0], [1.0, 5.05, 9.0]]).widths(10.0), [5, 2, 2]);
    }

    /// A line that jumps up and down stays within the axes: above them the picture is white.
    #[test]
    fn a_sharp_turn_in_pixels_stays_in_the_picture() {
        let jumps = (0..2000).map(|x| (f64::from(x), f64::from(x % 2) * 10.0, 0.0, 0.0)).collect();
        let series = vec![Series { name: "a".to_owned(), points: jumps }];
        let png = Plot { series, ..Plot::default() }.png().unwrap();
        let mut reader = png::Decoder::new(std::io::Cursor::new(png)).read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        reader.next_frame(&mut pixels).unwrap();
        let row = (SIZE.0 * PNG_SCALE * 3) as usize;
        assert!(pixels[..row * 10].iter().all(|byte| *byte == 255));
    }
}
