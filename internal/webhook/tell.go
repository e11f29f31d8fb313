package webhook

import (
	"context"
	"fmt"
	"slices"
	"time"

	"usher.sh/usher/internal/act"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"usher.sh/usher/internal/eviction"
)

var (
	answerTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "usher_admission_answers_total",
		Help: "Answers to evictions and deletions of pods, by verb and by what was answered.",
	}, []string{"verb", "answer"})
	answerSeconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "usher_admission_answer_seconds",
		Help:    "How long answers to evictions and deletions of pods took.",
		Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
	}, []string{"verb"})
)

func init() { metrics.Registry.MustRegister(answerTotal, answerSeconds) }

// report logs and counts an answer, and records it as an event where a person should see it.
func (h *disruptionHandler) report(ctx context.Context, w *removal, pod *corev1.Pod, result eviction.AdmissionResult, took time.Duration) {
	answerTotal.WithLabelValues(string(w.verb), string(result.Note.Kind)).Inc()
	answerSeconds.WithLabelValues(string(w.verb)).Observe(took.Seconds())
	if result.Note.Kind == eviction.NotGoverned {
		return
	}
	h.Log.Info("answered", "request", w.request.UID, "verb", w.verb, "pod", w.pod, "uid", uidOf(pod), "user", w.request.UserInfo.Username,
		"dryRun", w.dryRun, "allowed", result.Allow, "answer", result.Note.Kind, "message", result.Note.Message, "took", took)
	if !w.dryRun {
		h.record(ctx, w, pod, result)
	}
}

// recorded are the answers about which there are events.
var recorded = []eviction.NoteKind{eviction.BrokenGlass, eviction.HoldExpired, eviction.Refused, eviction.LetThrough, eviction.WouldRefuse}

// record records events about a pod that is there by more than the request's word.
func (h *disruptionHandler) record(ctx context.Context, w *removal, pod *corev1.Pod, result eviction.AdmissionResult) {
	if !slices.Contains(recorded, result.Note.Kind) {
		return
	}
	if pod = h.shown(ctx, w, pod); pod == nil {
		return
	}
	// An event names the pod only; where it comes from is in its kind of reason.
	about := &corev1.Pod{ObjectMeta: pod.ObjectMeta, Spec: corev1.PodSpec{NodeName: pod.Spec.NodeName}}
	about.APIVersion, about.Kind = "v1", "Pod"
	note := act.EventNote(result.Note.Message)
	switch result.Note.Kind {
	case eviction.BrokenGlass:
		h.Events.Eventf(about, nil, corev1.EventTypeWarning, "BrokenGlass", actionOf(w), "%s", note)
		h.recordNodeEvent(w, about, corev1.EventTypeWarning, result.Note.Message)
	case eviction.HoldExpired:
		h.Events.Eventf(about, nil, corev1.EventTypeWarning, "HoldExpired", actionOf(w), "%s", note)
	case eviction.Refused:
		h.Events.Eventf(about, nil, corev1.EventTypeNormal, "Refused", act.EventAction(actionOf(w), act.EventWhy(result.Verdict.Blockers)), "%s", note)
	case eviction.WouldRefuse:
		h.Events.Eventf(about, nil, corev1.EventTypeNormal, "WouldRefuse", act.EventAction(actionOf(w), act.EventWhy(result.Verdict.Blockers)), "%s", note)
	case eviction.LetThrough:
		h.recordNodeEvent(w, about, corev1.EventTypeNormal, "its system lets it go")
	default:
	}
}

// recordNodeEvent says on the node that a pod leaves it. What Usher does itself, the responder records.
func (h *disruptionHandler) recordNodeEvent(w *removal, pod *corev1.Pod, kind, why string) {
	node := act.EventNode(pod)
	if node == nil || slices.Contains(h.Self, w.request.UserInfo.Username) {
		return
	}
	note := act.EventNote(fmt.Sprintf("pod %s leaves, requested by %s: %s", w.pod, w.request.UserInfo.Username, why))
	h.Events.Eventf(node, pod, kind, act.PodLeaves, actionOf(w), "%s", note)
}

func uidOf(pod *corev1.Pod) string {
	if pod == nil {
		return ""
	}
	return string(pod.UID)
}

func actionOf(w *removal) string {
	if w.verb == eviction.VerbEvict {
		return "Evict"
	}
	return "Delete"
}
