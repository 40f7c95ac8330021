//! Comma-separated values (RFC 4180, with plain line ends).

/// Lines of a header and rows; fields that need it are quoted.
pub fn render<'a, R>(header: &[&str], rows: impl IntoIterator<Item = R>) -> String
where
    R: IntoIterator<Item = &'a str>,
{
    let mut text = line(header.iter().copied());
    for row in rows {
        text.push_str(&line(row));
    }
    text
}

fn line<'a>(fields: impl IntoIterator<Item = &'a str>) -> String {
    let mut text = fields.into_iter().map(quoted).collect::<Vec<_>>().join(",");
    text.push('\n');
    text
}

fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_where_needed() {
        let text = render(&["a", "b"], [vec!["1", "x,y"], vec!["2", "say \"hi\""], vec!["", "plain"]]);
        assert_eq!(text, "a,b\n1,\"x,y\"\n2,\"say \"\"hi\"\"\"\n,plain\n");
    }
}
