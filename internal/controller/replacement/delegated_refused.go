package replacement

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	"usher.sh/usher/internal/act"
	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/observe"
	"usher.sh/usher/internal/replacement"
	"usher.sh/usher/internal/text"
)

// ImpersonateRole is the ClusterRole that a namespace binds to the manager so that it acts as one of its ServiceAccounts.
const ImpersonateRole = "usher-replacements-impersonate"

// unreadTarget is what a replacement waits for where the object that is patched could not be read.
func (r *reconciler) unreadTarget(l *look, err error) []replacement.Blocker {
	at := &l.patch.Target
	switch what := at.Kind + " " + at.Name; {
	case errors.Is(err, act.ErrNotPatchable):
		return []replacement.Blocker{replacement.NotPatchable(at, text.Line(err.Error()))}
	case apierrors.IsForbidden(err):
		return []replacement.Blocker{replacement.Unread(what, text.Line(err.Error()), r.grant(l, err.Error()))}
	case meta.IsNoMatchError(err):
		return []replacement.Blocker{replacement.Unread(what, fmt.Sprintf("the apiserver serves no %s of %s", at.Kind, at.APIVersion),
			"install the operator; or, before it was asked, correct spec.members[].provider.patch.target of the policy; or delete the request")}
	default:
		return []replacement.Blocker{replacement.Unread(what, text.Line(err.Error()), "see the log of usher's manager")}
	}
}

// grant is how the right that a refusal names is given: to act as the ServiceAccount, or to what the ServiceAccount does.
func (r *reconciler) grant(l *look, said string) string {
	if strings.Contains(said, "impersonate") {
		return observe.BindManagerIn(l.request.Namespace, ImpersonateRole, r.Self) + "; its ClusterRole comes with " + bringRights
	}
	return fmt.Sprintf("give ServiceAccount %s the verbs get and patch on %s %s of %s",
		l.policy.Spec.ServiceAccountName, l.patch.Target.Kind, l.patch.Target.Name, l.patch.Target.APIVersion)
}

// targetRefused is what a replacement waits for where the patch was refused.
func (r *reconciler) targetRefused(l *look, answer *answers.Answer) replacement.Blocker {
	said := text.Line(cmp.Or(answer.Message, string(answer.Code)))
	remedy := "it is tried again; see the log of usher's manager"
	switch answer.Code {
	case answers.Forbidden:
		remedy = r.grant(l, said)
	case answers.Denied, answers.Rejected:
		remedy = "correct spec.members[].provider.patch of the policy, or what refuses it"
	case answers.Accepted, answers.Gone, answers.Conflict, answers.RefusedByBudget, answers.RefusedForNow, answers.SeveralBudgets,
		answers.NamespaceTerminating, answers.Unavailable:
	}
	return replacement.WriteRefused("patching", l.patch.Target.Kind+" "+l.patch.Target.Name, said, remedy)
}
