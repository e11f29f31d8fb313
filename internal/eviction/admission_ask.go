package eviction

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What can be asked by VerdictAnnotation.
const (
	AskEvict   = "evict"
	AskReplace = "replace"
)

// verdictCause is the type of the first cause in the answer to a question: its message is the verdict's Answer, its field
// "role/member".
const verdictCause = "UsherVerdict"

// RetryCause is the type of the cause in a refusal that says when it is worth asking again, as a duration.
//
// It is no Retry-After header, because client-go obeys that in silence, up to ten times: kubectl would show the blockers
// only after ten times as long, and a worker of the controller-manager would hang in its DELETE until then.
const RetryCause metav1.CauseType = "UsherRetry"

// Causes of an answer that are no blockers.
const (
	// evidenceCause says when the system was asked, in RFC 3339.
	evidenceCause metav1.CauseType = "UsherEvidence"
	// glassCause has the reason on a pod that may be evicted in spite of its blockers.
	glassCause metav1.CauseType = "UsherBreakGlass"
	// auditCause names the policies of a verdict in mode Audit.
	auditCause metav1.CauseType = "UsherAudit"
)

// answerAsk answers with the verdict, by a refusal, since nothing else carries words back.
func answerAsk(in *AdmissionInput) AdmissionResult {
	j := judgeEviction(in.Input)
	switch in.Ask {
	case AskEvict:
		j.stay()
	case AskReplace:
		j.verdict = JudgeReplace(in.Input)
	default:
		return AdmissionResult{
			Code:    badRequest,
			Message: fmt.Sprintf("Usher is asked %q, and understands %s and %s", in.Ask, AskEvict, AskReplace),
			Note:    Note{Kind: Asked}, Verdict: j.verdict,
		}
	}
	j.verdict.Audit = in.audit
	result := j.refusal()
	result.Causes = append(j.answerCauses(), result.Causes...)
	if j.verdict.Answer == Allowed {
		result.Message = j.title() + " may go: this only answers a question, nothing was evicted"
	}
	result.Note = Note{Kind: Asked, Message: string(j.verdict.Answer)}
	return result
}

// answerCauses is what an answer says beside the blockers.
func (j *judgement) answerCauses() []metav1.StatusCause {
	v := &j.verdict
	causes := []metav1.StatusCause{{Type: verdictCause, Message: string(v.Answer), Field: v.Role + "/" + v.Member}}
	if !v.Evidence.IsZero() {
		causes = append(causes, metav1.StatusCause{Type: evidenceCause, Message: v.Evidence.UTC().Format(time.RFC3339Nano)})
	}
	if v.BreakGlass != "" {
		causes = append(causes, metav1.StatusCause{Type: glassCause, Message: v.BreakGlass})
	}
	if v.Audit != "" {
		causes = append(causes, metav1.StatusCause{Type: auditCause, Message: v.Audit})
	}
	return causes
}

// ReadAnswer reads a verdict back from the causes of a refusal. ok is false where Usher did not write them for a question.
func ReadAnswer(causes []metav1.StatusCause) (verdict Verdict, ok bool) {
	if len(causes) == 0 || causes[0].Type != verdictCause {
		return Verdict{}, false
	}
	verdict.Answer = Answer(causes[0].Message)
	verdict.Role, verdict.Member, _ = strings.Cut(causes[0].Field, "/")
	for _, cause := range causes[1:] {
		verdict.read(cause)
	}
	return verdict, true
}

func (v *Verdict) read(cause metav1.StatusCause) {
	switch cause.Type {
	case RetryCause:
	case evidenceCause:
		// What cannot be read as a time is left out: the verdict stands without it.
		if at, err := time.Parse(time.RFC3339Nano, cause.Message); err == nil {
			v.Evidence = at
		}
	case glassCause:
		v.BreakGlass = cause.Message
	case auditCause:
		v.Audit = cause.Message
	default:
		message, remedy, _ := strings.Cut(cause.Message, "\n")
		v.Blockers = append(v.Blockers, Blocker{Rule: cause.Field, Reason: string(cause.Type), Message: message, Remedy: remedy})
	}
}

// causes has one cause for each blocker; its message's second line is the remedy.
func (j *judgement) causes() []metav1.StatusCause {
	var causes []metav1.StatusCause
	for i := range j.verdict.Blockers {
		b := &j.verdict.Blockers[i]
		message := oneLine(b.Message)
		if b.Remedy != "" {
			message += "\n" + oneLine(b.Remedy)
		}
		causes = append(causes, metav1.StatusCause{Type: metav1.CauseType(b.Reason), Field: b.Rule, Message: message})
	}
	return causes
}

// title names the pod and what it is.
func (j *judgement) title() string {
	if j.in.Pod == nil {
		return "member " + j.verdict.Member + " (" + j.verdict.Role + ")"
	}
	title := "pod " + j.in.Pod.Namespace + "/" + j.in.Pod.Name
	switch {
	case j.verdict.Role == "":
		return title
	case j.verdict.Member == "" || j.verdict.Member == j.in.Pod.Name:
		return title + " (" + j.verdict.Role + ")"
	}
	return title + " (" + j.verdict.Role + " " + j.verdict.Member + ")"
}

// MayNever is in every refusal of a pod that no waiting and no preparation will let go.
const MayNever = "may never leave its node"

func (j *judgement) mayNot() string {
	if j.verdict.Answer == Never {
		return MayNever
	}
	return "may not leave its node yet"
}

// summary puts all blockers into one line, and the remedy where there is only one.
func (j *judgement) summary() string {
	if len(j.verdict.Blockers) == 1 {
		b := &j.verdict.Blockers[0]
		text := oneLine(b.Message)
		if b.Remedy != "" {
			text += " (remedy: " + oneLine(b.Remedy) + ")"
		}
		return text
	}
	var said []string
	for i := range j.verdict.Blockers {
		said = append(said, fmt.Sprintf("(%d) %s", i+1, oneLine(j.verdict.Blockers[i].Message)))
	}
	return strings.Join(said, " ")
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// retryAfter is when the first blocker is worth another look, 5 s to a minute.
func (j *judgement) retryAfter() time.Duration {
	const shortest, longest = 5 * time.Second, time.Minute
	if j.verdict.Answer == Never {
		return longest
	}
	soonest := longest
	for i := range j.verdict.Blockers {
		if retry := j.verdict.Blockers[i].Retry; retry > 0 {
			soonest = min(soonest, retry)
		}
	}
	return max(soonest, shortest)
}
