// Package show answers: how does a drain look, to people and to programs?
//
// It turns decisions, plans and blockers into text: a live table on a terminal,
// plain lines into a pipe, JSON lines for programs. It knows no cluster and decides
// nothing. Layout is pure (facts in, lines out); only Screen and the reporters write.
package show
