// Package expression answers: what may a rule say, and what is its value? It is the CEL language of rules: expressions and templates over
// facts, type-checked against what a system declares, with limits on what they cost. It knows of no policy and takes no decision.
package expression
