// Package rest answers: what does any system that speaks JSON over HTTP say about itself and its members?
//
// Questions, rules and steps are the policy's own; this package asks, and turns JSON into facts: `system.NAME` and
// `member.NAME` are the answers, whole, with numbers as float64. A question about the system that no endpoint answers makes the
// observation fail; one about a member leaves that member's fact out, so that rules that ask for it do not pass.
//
// Endpoints are tried in their order until one gives a good answer. Redirects are not followed: headers with credentials go
// where the policy says and nowhere else.
package rest
