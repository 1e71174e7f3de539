//! Makes the copy of a script that is run: programs that it names by path become the recorders, and it takes itself for
//! root.

/// Directories of programs.
const DIRECTORIES: [&str; 9] = [
    "/usr/local/sbin/",
    "/usr/local/bin/",
    "/usr/sbin/",
    "/usr/bin/",
    "/sbin/",
    "/bin/",
    "/opt/sbin/",
    "/opt/bin/",
    "/opt/iproute2/sbin/",
];

/// Returns the shell that the first line of a script names; of one that names none, `bash` where there is one.
///
/// # Errors
/// In words: it is no script of a shell.
pub(super) fn shell(text: &str) -> Result<String, String> {
    if text.contains('\0') {
        return Err("this is no text; a script of a shell is run".to_owned());
    }
    let exists = |path: &str| std::path::Path::new(path).exists();
    let bash = if exists("/bin/bash") { "/bin/bash" } else { "/bin/sh" };
    let Some(line) = text.lines().next().and_then(|line| line.strip_prefix("#!")) else { return Ok(bash.to_owned()) };
    let mut words = line.split_whitespace().map(|word| word.rsplit('/').next().unwrap_or(word));
    let program = words.find(|word| *word != "env" && !word.starts_with('-')).unwrap_or("sh");
    // On the author's system, sh is bash.
    let begins = |line: &str| ["function ", "source "].iter().any(|word| line.trim_start().starts_with(word));
    let is_bash = ["[[ ", "&>", "$'"].iter().any(|sign| text.contains(sign)) || text.lines().any(begins);
    match program {
        "sh" if is_bash => Ok(bash.to_owned()),
        "sh" | "ash" | "dash" | "busybox" => Ok("/bin/sh".to_owned()),
        "bash" | "ksh" | "mksh" | "zsh" => Ok(bash.to_owned()),
        other => Err(format!("this is a script of \"{other}\"; only those of a shell (sh, bash) are run")),
    }
}

/// Returns true for a text that can be the name of a variable.
pub(super) fn is_name(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_') && text.chars().all(is_name_character)
}

fn is_name_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Returns the script as it is run: with the same number of lines.
pub(super) fn rewritten(text: &str, bin: &str, tools: &[&str]) -> String {
    let mut made = String::with_capacity(text.len() + 256);
    for line in text.split_inclusive('\n') {
        made.push_str(&variables(&paths(&search_path(line, bin), bin, tools)));
    }
    made
}

/// Keeps the recorders first where the line sets PATH.
fn search_path(line: &str, bin: &str) -> String {
    let indent = line.len() - line.trim_start().len();
    let head = if line[indent..].starts_with("export PATH=") { indent + "export ".len() } else { indent };
    match line[head..].strip_prefix("PATH=") {
        Some(rest) => format!("{}PATH={bin}:{rest}", &line[..head]),
        None => line.to_owned(),
    }
}

/// Puts recorders in the place of programs that are named by path.
fn paths(line: &str, bin: &str, tools: &[&str]) -> String {
    let mut made = String::new();
    let mut rest = line;
    let mut before = ' ';
    while let Some(c) = rest.chars().next() {
        let is_path = |c: char| is_name_character(c) || "/.-+".contains(c);
        if c == '/' && !is_path(before) && before != '}' {
            let end = rest.find(|c: char| !is_path(c)).unwrap_or(rest.len());
            let (word, behind) = rest.split_at(end);
            let tool = DIRECTORIES.iter().find_map(|dir| word.strip_prefix(dir)).filter(|name| tools.contains(name));
            match tool {
                Some(tool) => made.push_str(&format!("{bin}/{tool}")),
                None => made.push_str(word),
            }
            before = '/';
            rest = behind;
        } else {
            made.push(c);
            before = c;
            rest = &rest[c.len_utf8()..];
        }
    }
    made
}

/// Puts root's number in the place of the variables that a shell sets itself.
fn variables(line: &str) -> String {
    let mut made = line.replace("${EUID}", "0").replace("${UID}", "0");
    for name in ["$EUID", "$UID"] {
        let mut done = String::new();
        let mut rest = made.as_str();
        while let Some((before, behind)) = rest.split_once(name) {
            done.push_str(before);
            done.push_str(if behind.starts_with(is_name_character) { name } else { "0" });
            rest = behind;
        }
        done.push_str(rest);
        made = done;
    }
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_by_path_the_search_path_and_the_user_are_replaced_and_nothing_else() {
        let text = "#!/bin/sh\nTC=/sbin/tc; IP=\"/usr/sbin/ip\"\nexport PATH=/sbin:/bin\n[ $EUID = 0 ] || [ $UIDS ]\n/etc/sbin/tc /sbin/tcpdump $X/sbin/tc\n";
        let expected = "#!/bin/sh\nTC=/b/tc; IP=\"/b/ip\"\nexport PATH=/b:/sbin:/bin\n[ 0 = 0 ] || [ $UIDS ]\n/etc/sbin/tc /sbin/tcpdump $X/sbin/tc\n";
        assert_eq!(rewritten(text, "/b", &["tc", "ip"]), expected);
    }

    #[test]
    fn scripts_of_other_languages_are_refused() {
        assert!(shell("#!/usr/bin/env -S python3 -u\n").unwrap_err().contains("\"python3\""));
        let bash = shell("#!/bin/bash\n").unwrap();
        assert_eq!(shell("#!/bin/sh\nif [[ -z $A ]]; then :; fi\n").unwrap(), bash);
        assert!(shell("#!/bin/sh -e\n").unwrap() == "/bin/sh" && shell("a\0b").is_err());
    }
}
