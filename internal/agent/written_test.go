package agent

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/eviction"
	"usher.sh/usher/internal/nodepressure"
)

var unanswered = answers.Answer{Code: answers.Unavailable, Message: "timeout"}

// broken makes a pod of worker-1 with a value of the annotation.
func broken(value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.NodeName = "worker-1"
		if value != "" {
			p.Annotations = map[string]string{v1alpha1.BreakGlassAnnotation: value}
		}
	}
}

// shows lets the watch bring what is written on pods.
func (w *world) shows(change ...func(*corev1.Pod)) {
	w.cluster.then = func(verb, name string) {
		switch verb {
		case "break":
			w.pod(name, w.used[types.UID("uid-"+name)]/mib, append(change, broken(w.cluster.glass))...)
		case "mend":
			w.pod(name, w.used[types.UID("uid-"+name)]/mib, append(change, broken(""))...)
		}
	}
}

func count(all []string, what string) int {
	n := 0
	for _, one := range all {
		if one == what {
			n++
		}
	}
	return n
}

// TestABlankAnnotationIsWrittenOver: it lets nothing through, and the refusal would have another pod go past its verdict.
func TestABlankAnnotationIsWrittenOver(t *testing.T) {
	for value, want := range map[string]string{"": "break member forced", " \t\u202e": "break member forced", "incident 4711": "break member"} {
		inWorld(t, func(w *world) {
			w.agent.loop.podUsage.policyOf = func(*resident, time.Time) (bool, v1alpha1.PressureMode) { return true, v1alpha1.PressureLastResort }
			w.synced(w.pod("member", 920, governedBy("db"), func(p *corev1.Pod) {
				p.Annotations = map[string]string{v1alpha1.BreakGlassAnnotation: value}
			}))
			w.cluster.answers["evict member"] = answers.Answer{Code: answers.RefusedForNow, Message: "holds data", RetryAfter: time.Hour}
		}, func(w *world) {
			pass(time.Second)
			w.gone("member")
			if asked := w.cluster.log(); !slices.Contains(asked, want) || !slices.Contains(asked, "remove member 1s") {
				t.Errorf("annotated with %q: asked %q, want %s and its removal", value, asked, want)
			}
		})
	}
}

func TestAnAnnotationWhoseAnswerWasLostIsTakenBack(t *testing.T) {
	inWorld(t, func(w *world) {
		w.agent.loop.podUsage.policyOf = func(*resident, time.Time) (bool, v1alpha1.PressureMode) { return true, v1alpha1.PressureLastResort }
		w.synced(w.pod("member", 920, governedBy("db")))
		w.shows(governedBy("db"))
		w.cluster.answers["evict member"] = answers.Answer{Code: answers.RefusedForNow, Message: "holds data", RetryAfter: time.Hour}
		w.cluster.answers["mend member"] = unanswered
		w.cluster.lost = "break member"
	}, func(w *world) {
		pass(time.Second)
		w.uses("uid-member", 100)
		w.agent.apiserver.record(nil)
		pass(time.Minute)
		tried := count(w.cluster.log(), "mend member")
		w.cluster.answer("mend member", nil)
		w.agent.apiserver.record(nil)
		pass(time.Minute)
		asked := w.cluster.log()
		if i := slices.Index(asked, "break member"); i < 0 || slices.Contains(asked, "remove member 1s") || tried == 0 {
			t.Errorf("asked %q, want the glass broken, nothing removed on the strength of it, and the annotation taken back", asked)
		}
		if got := count(asked, "mend member"); got != tried+1 {
			t.Errorf("taken back %d times more after %d tries without an answer, want once", got-tried, tried)
		}
	})
}

func TestAnAnnotationOfAnEarlierLifeIsTakenBack(t *testing.T) {
	inWorld(t, func(w *world) {
		w.synced(
			w.pod("own", 100, broken(nodepressure.GlassOf("worker-1", "memory is used up"))),
			w.pod("person", 100, broken("incident 4711")),
			w.pod("other", 100, broken(nodepressure.GlassOf("worker-2", "memory is used up"))),
		)
		w.shows()
	}, func(w *world) {
		pass(time.Minute)
		same(t, w, "mend own")
	})
}

// TestAnAnnotationThatComesBackCostsLittle: a user who may annotate a pod can write the agent's value.
func TestAnAnnotationThatComesBackCostsLittle(t *testing.T) {
	inWorld(t, func(w *world) {
		w.synced(w.pod("forged", 100, broken(nodepressure.GlassOf("worker-1", "as you say"))))
	}, func(w *world) {
		pass(time.Minute)
		if tries := len(w.cluster.log()); tries < 2 || tries > int(time.Minute/takeBackAgain)+1 {
			t.Errorf("%d tries in a minute", tries)
		}
	})
}

func TestAWithdrawalIsTriedUntilItIsAnswered(t *testing.T) {
	inWorld(t, func(w *world) {
		w.synced(w.pod("member", 100, governedBy("db")))
		w.cluster.answers["withdraw member"] = unanswered
	}, func(w *world) {
		for range 3 {
			pass(20 * time.Second)
			w.agent.apiserver.record(nil)
		}
		tried := len(w.cluster.log())
		w.cluster.answer("withdraw member", nil)
		pass(time.Minute)
		if asked := w.cluster.log(); tried < 2 || len(asked) != tried+1 {
			t.Errorf("asked %q, want the withdrawal again and again until it is answered, which it is after %d", asked, tried)
		}
	})
}

// TestAWithdrawalComesAfterItsRequest: one that overtakes it finds nothing to withdraw.
func TestAWithdrawalComesAfterItsRequest(t *testing.T) {
	inWorld(t, func(w *world) {
		w.synced(w.pod("member", 920, governedBy("db")))
		w.cluster.slow = 2 * time.Second
		w.cluster.answers["evict member"] = answers.Answer{Code: answers.RefusedForNow, Message: "holds data"}
	}, func(w *world) {
		pass(time.Second)
		w.uses("uid-member", 100)
		pass(carriedOutWithin / 2)
		same(t, w, "request member", "evict member 0s", "withdraw member")
	})
}

// TestRequestsOfAnEarlierLifeUnderPressure: a node that stays short keeps what it asks for now, and nothing else.
func TestRequestsOfAnEarlierLifeUnderPressure(t *testing.T) {
	inWorld(t, func(w *world) {
		w.synced(w.pod("big", 700, governedBy("db")), w.pod("small", 230, governedBy("db")))
		for _, name := range []string{"evict big", "evict small"} {
			w.cluster.answers[name] = answers.Answer{Code: answers.RefusedForNow, Message: "holds data", RetryAfter: time.Hour}
		}
	}, func(w *world) {
		pass(carriedOutWithin / 2)
		asked := w.cluster.log()
		if count(asked, "withdraw small") != 1 || count(asked, "withdraw big") != 0 || count(asked, "request big") != 1 {
			t.Errorf("asked %q, want big asked for, and small not any more", asked)
		}
	})
}

// TestTheNextIsPreparedSoonAfterAStart: a request that an agent before this one may have made, and that was withdrawn, keeps no
// other pod from being prepared, and is withdrawn once more when it cannot come any more. Nor is the next forgotten where its own
// withdrawal, begun at the same moment, is answered last.
func TestTheNextIsPreparedSoonAfterAStart(t *testing.T) {
	for _, tardy := range []string{"", "withdraw big", "withdraw small"} {
		inWorld(t, func(w *world) {
			w.synced(w.pod("big", 500, governedBy("db")), w.pod("small", 350, governedBy("db")))
			w.cluster.tardy = tardy
			w.cluster.answers["evict big"] = answers.Answer{Code: answers.RefusedForNow, Message: eviction.MayNever, RetryAfter: time.Hour}
			w.cluster.answers["evict small"] = answers.Answer{Code: answers.RefusedForNow, Message: "holds data", RetryAfter: time.Hour}
		}, func(w *world) {
			pass(carriedOutWithin - time.Second)
			asked := w.cluster.log()
			if i := slices.Index(asked, "withdraw big"); i < 0 || !slices.Contains(asked[i:], "request small") {
				t.Errorf("slow to %q: asked %q, want big withdrawn, and then small asked for", tardy, asked)
			}
			pass(carriedOutWithin)
			if since := w.cluster.log()[len(asked):]; count(asked, "withdraw big") != 1 || !cmp.Equal(since, []string{"withdraw big"}) {
				t.Errorf("slow to %q: asked %q, then %q, want big withdrawn once, and once more", tardy, asked, since)
			}
		})
	}
}

func TestWrittenUntilItCannotStandAnyMore(t *testing.T) {
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	type step struct {
		after  time.Duration
		kind   nodepressure.ActionKind
		answer answers.Code
	}
	stands := func(later bool) []nodepressure.Written {
		return []nodepressure.Written{{UID: "u", Kind: nodepressure.Withdraw, Later: later}}
	}
	refused := []nodepressure.Written{{UID: "u", Kind: nodepressure.Withdraw, Later: true, Refused: true}}
	late := func(later bool) []nodepressure.Written {
		return []nodepressure.Written{{UID: "u", Kind: nodepressure.Withdraw, Later: later, Late: true}}
	}
	tests := []struct {
		name  string
		steps []step
		at    time.Duration
		want  []nodepressure.Written
	}{
		{"asked for", []step{{0, nodepressure.Request, answers.Accepted}}, 0, stands(false)},
		{"withdrawn", []step{{0, nodepressure.Request, answers.Accepted}, {0, nodepressure.Withdraw, answers.Accepted}}, 0, nil},
		{"its withdrawal went unanswered", []step{{0, nodepressure.Request, answers.Accepted}, {0, nodepressure.Withdraw, answers.Unavailable}}, time.Second, stands(true)},
		{"a little later", []step{{0, nodepressure.Request, answers.Accepted}, {0, nodepressure.Withdraw, answers.Unavailable}}, takeBackAgain, stands(false)},
		{"its withdrawal is forbidden", []step{{0, nodepressure.Request, answers.Accepted}, {0, nodepressure.Withdraw, answers.Forbidden}}, takeBackAgain, refused},
		{"and then goes unanswered", []step{{0, nodepressure.Request, answers.Accepted}, {0, nodepressure.Withdraw, answers.Denied}, {forbiddenStands, nodepressure.Withdraw, answers.Unavailable}}, forbiddenStands, stands(true)},
		{"it was refused, and may stand from before", []step{{0, nodepressure.Request, answers.Forbidden}}, 0, stands(false)},
		{"unanswered and withdrawn: it may still arrive", []step{{0, nodepressure.Request, answers.Unavailable}, {time.Second, nodepressure.Withdraw, answers.Accepted}}, time.Second, late(true)},
		{"there was nothing to withdraw", []step{{0, nodepressure.Request, answers.Unavailable}, {time.Second, nodepressure.Withdraw, answers.Gone}}, time.Second, late(true)},
		{"asked for anew", []step{{0, nodepressure.Request, answers.Unavailable}, {time.Second, nodepressure.Withdraw, answers.Accepted}, {2 * time.Second, nodepressure.Request, answers.Accepted}}, 2 * time.Second, stands(true)},
		{"by then it has, if ever", []step{{0, nodepressure.Request, answers.Unavailable}, {time.Second, nodepressure.Withdraw, answers.Accepted}}, carriedOutWithin, late(false)},
		{"and is withdrawn", []step{{0, nodepressure.Request, answers.Unavailable}, {time.Second, nodepressure.Withdraw, answers.Accepted}, {carriedOutWithin, nodepressure.Withdraw, answers.Accepted}}, carriedOutWithin, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := newLedger(nil)
			for _, s := range tt.steps {
				o := outcome{action: nodepressure.Action{Kind: s.kind, Pod: &nodepressure.Pod{UID: "u"}}, answer: answers.Answer{Code: s.answer}}
				if l.begin(&o.action, noon.Add(s.after)); !l.occupied()["u"] {
					t.Error("an action is under way, and not known")
				}
				if l.end(&o, noon.Add(s.after)); len(l.occupied()) > 0 {
					t.Error("no action is under way any more, and one is known")
				}
			}
			if diff := cmp.Diff(tt.want, l.written.list(nil, noon.Add(tt.at))); diff != "" {
				t.Error(diff)
			}
			if l.settle(nil, true); len(l.written.asked)+len(l.written.later) > 0 {
				t.Error("a pod that is gone is remembered")
			}
		})
	}
}
