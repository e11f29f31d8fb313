package eviction

import (
	"slices"
	"strings"

	"usher.sh/usher/internal/text"
)

// Audit answers a caller where all policies of the input are in mode Audit. What they would refuse in mode Enforce is let through with a
// warning, and nothing is to be done; a question is answered as Admit answers it. A pod that none of them claims is not governed.
func Audit(in AdmissionInput) AdmissionResult {
	in.audit = audits(&in.Input)
	if in.audit == "" {
		return AdmissionResult{Allow: true, Note: Note{Kind: NotGoverned, Message: exemptions[NotGoverned]}}
	}
	in.Ungoverned = true
	would := Admit(in)
	switch {
	case in.Ask != "":
		would.Message += "; " + in.audit + ", which lets it through"
		return would
	case would.Allow:
		return AdmissionResult{Allow: true, Verdict: would.Verdict, Note: Note{Kind: WouldAllow, Message: would.Note.Message}}
	}
	message := text.Line(in.audit + " would have refused this: " + would.Message)
	return AdmissionResult{Allow: true, Verdict: would.Verdict, Warnings: []string{message}, Note: Note{Kind: WouldRefuse, Message: message}}
}

// audits names the policies that claim the pod, "" where none does.
func audits(in *Input) string {
	var names []string
	for _, found := range claimants(in.Policies, in.Pod) {
		if name := found.policy.Key.String(); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	switch len(names) {
	case 0:
		return ""
	case 1:
		return "policy " + names[0] + " in mode Audit"
	}
	return "policies " + strings.Join(names, " and ") + " in mode Audit"
}
