package webhook

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"usher.sh/usher/internal/eviction"
)

var (
	answers = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "usher_admission_answers_total",
		Help: "Answers to evictions and deletions of pods, by verb and by what was answered.",
	}, []string{"verb", "answer"})
	answerSeconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "usher_admission_answer_seconds",
		Help:    "How long answers to evictions and deletions of pods took.",
		Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
	}, []string{"verb"})
)

func init() { metrics.Registry.MustRegister(answers, answerSeconds) }

// tell logs and counts an answer, and records it as an event where somebody should see it.
func (h *leaving) tell(w *wish, pod *corev1.Pod, result eviction.AdmissionResult, took time.Duration) {
	answers.WithLabelValues(string(w.verb), string(result.Note.Kind)).Inc()
	answerSeconds.WithLabelValues(string(w.verb)).Observe(took.Seconds())
	if result.Note.Kind == eviction.NotGoverned {
		return
	}
	h.Log.Info("answered", "request", w.request.UID, "verb", w.verb, "pod", w.pod, "uid", uidOf(pod), "user", w.request.UserInfo.Username,
		"dryRun", w.dryRun, "allowed", result.Allow, "answer", result.Note.Kind, "message", result.Note.Message, "took", took)
	if pod == nil || w.dryRun {
		return
	}
	// An event names the pod only; where it comes from is in its kind of reason.
	about := &corev1.Pod{ObjectMeta: pod.ObjectMeta}
	about.APIVersion, about.Kind = "v1", "Pod"
	switch result.Note.Kind {
	case eviction.BrokenGlass:
		h.Events.Eventf(about, nil, corev1.EventTypeWarning, "BrokenGlass", actionOf(w), "%s", clip(result.Note.Message))
	case eviction.Refused:
		h.Events.Eventf(about, nil, corev1.EventTypeNormal, "Refused", actionOf(w), "%s", clip(result.Note.Message))
	default:
	}
}

func uidOf(pod *corev1.Pod) string {
	if pod == nil {
		return ""
	}
	return string(pod.UID)
}

func actionOf(w *wish) string {
	if w.verb == eviction.VerbEvict {
		return "Evict"
	}
	return "Delete"
}

// mostNote is what the API allows in an event's note, in bytes.
const mostNote = 1024

func clip(text string) string {
	if len(text) <= mostNote {
		return text
	}
	cut := mostNote - len("…")
	for cut > 0 && text[cut]&0xC0 == 0x80 { // not within a character
		cut--
	}
	return text[:cut] + "…"
}
