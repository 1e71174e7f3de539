//! Questions of `fairlink init`.

use std::io::{self, BufRead, Write};

use anyhow::anyhow;
use fairlink_core::Rate;

use super::kinds::{KINDS, Kind};
use super::lines::{LINES, Line, line};
use super::{Ports, Toward, kind, two_or_one};
use fairlink_terminal::args::rate;
use fairlink_terminal::failure::CliError;
use fairlink_terminal::out::wrapped;

/// A person at a terminal.
pub(super) struct Person<'a> {
    /// Answers, one per line.
    pub(super) input: &'a mut dyn BufRead,
    /// Output of the questions.
    pub(super) output: &'a mut dyn Write,
    /// Columns of a line.
    pub(super) width: usize,
}

/// Asks a person, if there is one. Each question names its flag for non-interactive use.
pub(super) struct Questions<'a> {
    person: Option<Person<'a>>,
    /// True if anything was asked.
    pub(super) asked: bool,
}

impl<'a> Questions<'a> {
    pub(super) fn new(person: Option<Person<'a>>) -> Self {
        Self { person, asked: false }
    }

    /// Returns true if a person can answer.
    pub(super) fn has_person(&self) -> bool {
        self.person.is_some()
    }

    /// Asks for the use of the link.
    pub(super) fn kind(&mut self) -> Result<&'static Kind, CliError> {
        let kinds = KINDS.iter().map(|kind| format!("  {:9} {}", kind.name, kind.what));
        self.ask("What is the link used for? [home] ", &kinds.collect::<Vec<_>>(), "--kind home", Some("home"), kind)
    }

    /// Asks for one or two interfaces; `known` are those of this machine.
    pub(super) fn ports(&mut self, known: &[String]) -> Result<Ports, CliError> {
        let mut before = vec![
            "One interface (eth0): shape the traffic that this machine itself sends.".to_owned(),
            "Two (lan0 wan0), users' side first: shape traffic between users and the line.".to_owned(),
        ];
        if !known.is_empty() {
            before.push(format!("Interfaces of this machine: {}", known.join(" ")));
        }
        self.ask("Which interface, or which two? ", &before, "--egress eth0, or --in lan0 --out wan0", None, two_or_one)
    }

    /// Asks for the rate of the single direction.
    pub(super) fn rate(&mut self) -> Result<Rate, CliError> {
        self.ask("What does the link carry, such as 40mbit? ", &[], "--rate 40mbit", None, rate)
    }

    /// Asks for the rates of both directions; at least one is needed.
    pub(super) fn rates(&mut self) -> Result<Vec<(Toward, Rate)>, CliError> {
        let optional = |text: &str| if text == "no" { Ok(None) } else { rate(text).map(Some) };
        let flags = "--down 100mbit --up 20mbit, or --rate for one direction";
        let before = ["Enter the measured or contracted rate; `no` leaves a direction unshaped.".to_owned()];
        loop {
            let down = self.ask(
                "What does the line carry down, to the users, such as 100mbit? ",
                &before,
                flags,
                None,
                optional,
            )?;
            let up = self.ask("And up, to the internet, such as 20mbit? ", &[], flags, None, optional)?;
            let ways = [(Toward::Internet, up), (Toward::Users, down)];
            let rates: Vec<_> = ways.into_iter().filter_map(|(way, rate)| Some((way, rate?))).collect();
            if !rates.is_empty() {
                return Ok(rates);
            }
            if let Some(person) = &mut self.person {
                person.tell("at least one direction needs a rate").map_err(failed)?;
            }
        }
    }

    /// The kind of line.
    pub(super) fn line(&mut self) -> Result<&'static Line, CliError> {
        let lines = LINES.iter().map(|line| format!("  {:9} {}", line.name, line.what));
        let lines: Vec<_> = lines.collect();
        self.ask("What is the line? [ethernet] ", &lines, "--line ethernet", Some("ethernet"), line)
    }

    /// Asks for the name of the file, or the common stem of both.
    pub(super) fn file(&mut self, usual: &str, both: bool) -> Result<String, CliError> {
        let question = match both {
            true => format!("Which file, with -up and -down in its name? [{usual}] "),
            false => format!("Which file? [{usual}] "),
        };
        self.ask(&question, &[], "--file home.toml", Some(usual), |text| Ok(text.to_owned()))
    }

    /// Asks until the answer is valid; an empty answer is `usual`. Without a person, the error names `flag`.
    fn ask<T>(
        &mut self,
        question: &str,
        before: &[String],
        flag: &str,
        usual: Option<&str>,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Result<T, CliError> {
        let Some(person) = &mut self.person else {
            return Err(CliError::wrong(format!("stdin is not a terminal: pass {flag}")));
        };
        if self.asked && !before.is_empty() {
            writeln!(person.output).map_err(failed)?;
        }
        self.asked = true;
        before.iter().try_for_each(|line| writeln!(person.output, "{line}")).map_err(failed)?;
        loop {
            person.output.write_all(question.as_bytes()).and_then(|()| person.output.flush()).map_err(failed)?;
            let mut line = String::new();
            if person.input.read_line(&mut line).map_err(failed)? == 0 {
                // End the line of the question.
                writeln!(person.output).map_err(failed)?;
                return Err(CliError::failed(anyhow!("end of input: no answer; nothing is written")));
            }
            let parsed = match (line.trim(), usual) {
                ("", Some(usual)) => parse(usual),
                ("", None) => Err("there is no default answer; Ctrl-C cancels".to_owned()),
                (answer, _) => parse(answer),
            };
            match parsed {
                Ok(value) => return Ok(value),
                Err(why) => person.tell(&why).map_err(failed)?,
            }
        }
    }
}

impl Person<'_> {
    /// Prints the error of an answer.
    fn tell(&mut self, text: &str) -> io::Result<()> {
        wrapped(&format!("  {text}"), self.width, 2).iter().try_for_each(|line| writeln!(self.output, "{line}"))
    }
}

/// An unusable terminal is not an error of the command line.
fn failed(error: io::Error) -> CliError {
    CliError::failed(anyhow!(error).context("the terminal cannot be used"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the result and the output of a dialogue with these input lines.
    fn talk<T>(lines: &str, with: impl Fn(&mut Questions<'_>) -> Result<T, CliError>) -> (Result<T, CliError>, String) {
        let (mut input, mut output) = (lines.as_bytes(), Vec::new());
        let mut questions = Questions::new(Some(Person { input: &mut input, output: &mut output, width: 80 }));
        let made = with(&mut questions);
        (made, String::from_utf8(output).unwrap())
    }

    #[test]
    fn an_answer_that_is_not_understood_is_asked_for_again() {
        let (kind, said) = talk("hoem\noffice\n", |questions| questions.kind());
        assert_eq!(kind.unwrap().name, "office");
        assert_eq!(said.matches("What is the link used for?").count(), 2, "{said}");
        assert!(said.contains("  there are: home, office"), "{said}");
        assert_eq!(talk("\n", |questions| questions.kind()).0.unwrap().name, "home");
    }

    #[test]
    fn a_rate_is_never_guessed_and_a_direction_may_be_left_as_it_is() {
        let mbit = |mbit: u64| Rate::from_bps(mbit * 1_000_000).unwrap();
        let (rates, said) = talk("\n100mbit\n20mbit\n", |questions| questions.rates());
        assert_eq!(rates.unwrap(), [(Toward::Internet, mbit(20)), (Toward::Users, mbit(100))]);
        assert!(said.contains("there is no default answer"), "{said}");
        let (rates, said) = talk("no\nno\n100mbit\nno\n", |questions| questions.rates());
        assert_eq!(rates.unwrap(), [(Toward::Users, mbit(100))]);
        assert!(said.contains("at least one direction needs a rate"), "{said}");
    }

    #[test]
    fn without_an_answer_or_a_person_nothing_is_made() {
        let (none, said) = talk("", |questions| questions.ports(&["lo".to_owned()]));
        assert!(matches!(none, Err(CliError::Failed(error)) if error.to_string().contains("nothing is written")));
        assert!(
            said.ends_with("Which interface, or which two? \n") && said.lines().all(|line| line.len() <= 80),
            "{said}"
        );
        let nobody = Questions::new(None).rates();
        assert!(
            matches!(nobody, Err(CliError::Wrong(error)) if error.to_string().contains("--down 100mbit --up 20mbit"))
        );
    }
}
