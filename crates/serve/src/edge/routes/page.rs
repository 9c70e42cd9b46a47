//! `GET /`: the page and its files, inside the program.

use axum::{
    extract::Path,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};

use crate::edge::error::ApiError;

macro_rules! files {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../../page/", $name)))),*]
    };
}

/// Everything in `page/`; a test holds this list to the folder.
const FILES: &[(&str, &str)] = files!["index.html"];

/// The page itself.
pub async fn page() -> Response {
    serve("index.html")
}

/// One of its files.
pub async fn file(Path(name): Path<String>) -> Response {
    serve(&name)
}

fn serve(name: &str) -> Response {
    let Some((name, text)) = FILES.iter().find(|(n, _)| *n == name) else {
        let message = "there is nothing at this address";
        return ApiError::new(StatusCode::NOT_FOUND, message).into_response();
    };
    let kind = match name.rsplit_once('.').map_or("", |(_, ending)| ending) {
        "html" => "text/html; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "svg" => "image/svg+xml",
        _ => "text/plain; charset=utf-8",
    };
    // A new version of the program brings a new page.
    let headers = [(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, "no-cache")];
    (headers, *text).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_the_page_is_served() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/page");
        let there = std::fs::read_dir(folder).unwrap();
        let mut there: Vec<_> =
            there.map(|f| f.unwrap().file_name().into_string().unwrap()).collect();
        let mut served: Vec<_> = FILES.iter().map(|(name, _)| name.to_string()).collect();
        there.sort();
        served.sort();
        assert_eq!(served, there);
    }
}
