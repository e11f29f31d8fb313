package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/act"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/observe"
	"usher.sh/usher/internal/text"
)

const (
	// judgedWithin is how long the manager may take to say what a request waits for, and a system to answer it.
	judgedWithin = 30 * time.Second
	// mostConflicts is how often giving up is tried where the request has changed, and what would be given up has not.
	mostConflicts = 5
)

// abandoner gives up data of one member.
type abandoner struct {
	*replaceOptions

	conn     *connection
	objects  dynamic.Interface
	policies []v1alpha1.EvictionPolicy
	last     *v1alpha1.ReplacementRequest
	shown    string // and agreed to
}

// abandonData shows what holds the replacement that a person can give up, asks, and writes it into the request. Nil: it is given up, or nothing
// had to be.
func (o *replaceOptions) abandonData(parent context.Context, conn *connection, objects dynamic.Interface, q *v1alpha1.ReplacementRequest) error {
	ctx, _, done := o.limit.follow(parent)
	defer done()
	policies, err := observe.ReadPolicies(ctx, conn.client, o.namespace)
	if err != nil {
		return observe.RefusedInstalled(o.namespace, "reading the policies of namespace "+o.namespace, err, viewRole)
	}
	a := &abandoner{replaceOptions: o, conn: conn, objects: objects, policies: policies, last: q}
	for range mostConflicts {
		if again, err := a.try(ctx); err != nil {
			return (&replacementFollower{options: o, last: a.last}).ended(ctx, err)
		} else if !again {
			return nil
		}
	}
	return a.keep("the request changes all the time: try again")
}

// try does so once, and reports whether it has to be tried again with the request as it is by then.
func (a *abandoner) try(ctx context.Context) (again bool, err error) {
	if err := a.awaitJudged(ctx); err != nil {
		return false, err
	}
	w := waivableOf(a.last)
	if why := w.unneeded(a.last); why != "" {
		fmt.Fprintln(a.Out, why)
		return false, nil
	}
	if why := w.refused(a.last); why != "" {
		return false, a.keep(why)
	}
	lines := strings.Join(w.lines(a.last, volumesKept(a.policies, a.last)), "\n")
	switch a.shown {
	case lines:
	case "":
		fmt.Fprintln(a.Out, lines)
		if err := a.ask(ctx); err != nil {
			return false, err
		}
		a.shown = lines
	default:
		return false, a.keep("what is to be given up has changed meanwhile: see it, by the same command")
	}
	return a.write(ctx, w.rules)
}

// keep says that nothing was given up, and why.
func (a *abandoner) keep(why string) error {
	fmt.Fprintln(a.Out, "nothing was given up: "+why)
	a.sayStands(a.last)
	return exitWith(exitBlocked)
}

// awaitJudged waits until the manager has said what a request waits for, and its system has answered, or for judgedWithin.
func (a *abandoner) awaitJudged(ctx context.Context) error {
	bounded, stop := context.WithTimeout(ctx, judgedWithin)
	defer stop()
	gone := false
	err := observe.Replacements{Client: a.objects, Namespace: a.last.Namespace}.Follow(bounded, a.last.Name, a.last.UID, func(now *v1alpha1.ReplacementRequest) bool {
		if gone = now == nil; gone {
			return true
		}
		a.last = now
		return judged(now)
	})
	switch {
	case gone:
		fmt.Fprintf(a.Out, "ReplacementRequest %s was deleted, and nothing was given up\n", a.last.Name)
		return exitWith(exitBlocked)
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil && bounded.Err() == nil:
		return err
	case a.last.Status.ObservedGeneration == 0:
		return a.keep(fmt.Sprintf("no manager has looked at it within %s; see whether usher's manager runs: kubectl get pods -A -l app.kubernetes.io/name=usher", judgedWithin))
	}
	return nil
}

// judged reports whether it is known what a request waits for. A system that has not answered, or not about the member yet, may answer in a moment.
func judged(q *v1alpha1.ReplacementRequest) bool {
	unanswered := func(b v1alpha1.ReplacementBlocker) bool {
		return b.Rule == "" && (len(b.WaivedBy) > 0 || b.Reason == eviction.MemberUnknown)
	}
	return q.Status.Step != "" && q.Status.ObservedGeneration == q.Generation && !slices.ContainsFunc(q.Status.Blockers, unanswered)
}

// ask returns nil where what was shown is to be given up: by --confirm, or by a person's answer. In a dry run nothing is.
func (a *abandoner) ask(ctx context.Context) error {
	switch {
	case a.confirm || a.dryRun != dryRunNone:
		return nil
	case !canAsk(a.In, a.Out):
		command := fmt.Sprintf("usher replace %s -n %s --policy %s --role %s --abandon-data --confirm", text.ShellWord(a.member), a.namespace, a.last.Spec.Source.Name, a.last.Spec.Member.Role)
		return a.keep("there is no terminal to ask on; to give it up: " + a.commands.In(command))
	}
	fmt.Fprint(a.Out, `Type "yes" to give it up: `)
	switch yes, err := answersYes(ctx, a.In); {
	case err != nil:
		fmt.Fprintln(a.Out)
		return err
	case !yes:
		return a.keep("the answer is not yes")
	}
	return nil
}

// answersYes reads a line, and reports whether it is a yes. The reading goes on when the context ends before.
func answersYes(ctx context.Context, in io.Reader) (bool, error) {
	typed := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(in).ReadString('\n') // what was not ended is no answer
		typed <- line
	}()
	select {
	case line := <-typed:
		return strings.TrimSpace(line) == "yes" && strings.HasSuffix(line, "\n"), nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// write gives rules up in the user's name, and reports whether the request has changed meanwhile.
func (a *abandoner) write(ctx context.Context, rules []string) (again bool, err error) {
	if a.dryRun == dryRunClient {
		fmt.Fprintln(a.Out, "nothing was given up (client dry run)")
		return false, nil
	}
	user, err := act.Username(ctx, a.conn.client)
	if err != nil {
		return false, err
	}
	given := &v1alpha1.ReplacementAbandonment{Requester: user, Time: metav1.NewTime(a.conn.clock.Now().UTC().Truncate(time.Second)), Rules: rules}
	_, err = act.AbandonData(ctx, a.objects, a.last, given, a.dryRun == dryRunServer)
	what := fmt.Sprintf("%s of member %s", ruleWords(rules), text.Line(a.last.Spec.Member.ID))
	switch {
	case apierrors.IsConflict(err):
		return true, nil
	case err != nil:
		return false, a.writeRefused("giving up data in ReplacementRequest "+a.last.Name, err)
	case a.dryRun == dryRunServer:
		fmt.Fprintf(a.Out, "%s would give up %s (server dry run)\n", text.Line(user), what)
		return false, nil
	}
	fmt.Fprintf(a.Out, "%s has given up %s, in ReplacementRequest %s\n", text.Line(user), what, a.last.Name)
	return false, nil
}
