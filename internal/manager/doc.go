// Package manager answers: how do the parts of `usher manager` become one process? Every replica answers admission and
// keeps evidence; the one that leads runs the controllers.
package manager
