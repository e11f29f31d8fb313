package act

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/answers"
	"usher.sh/usher/internal/drain"
	"usher.sh/usher/internal/nodepressure"
	"usher.sh/usher/internal/snapshot"
)

// pressureRequester is the name under which the agent asks for evictions.
const pressureRequester = nodepressure.Requester + "/agent"

// disruptedByAgent is the reason of the condition DisruptionTarget on pods that the agent removed or killed itself; those
// that it evicts get the eviction API's own.
const disruptedByAgent = "TerminationByUsherAgent"

// Pressure carries out what the agent of one node has decided. It may be used by several goroutines at once.
type Pressure struct {
	Writer *Writer
	Node   string
}

// Evict asks the eviction API. Grace is how long the pod gets; 0: its own.
func (p *Pressure) Evict(ctx context.Context, pod *snapshot.Pod, grace time.Duration) answers.Answer {
	return p.Writer.Do(ctx, drain.Action{Kind: drain.Evict, Pod: pod, Grace: graceOf(grace)})
}

// Remove deletes the pod past its budgets. Grace is at least a second: 0 would take it out of the API while it still runs.
func (p *Pressure) Remove(ctx context.Context, pod *snapshot.Pod, grace time.Duration) answers.Answer {
	grace = max(grace, time.Second)
	return p.Writer.Do(ctx, drain.Action{Kind: drain.Delete, Pod: pod, Grace: &grace})
}

func graceOf(grace time.Duration) *time.Duration {
	if grace == 0 {
		return nil
	}
	return &grace
}

// Ask makes an EvictionRequest, so that the pod is prepared to leave.
func (p *Pressure) Ask(ctx context.Context, pod *snapshot.Pod) answers.Answer {
	return answers.Of(p.Writer.Ask(ctx, Demand{Pod: pod, Requester: pressureRequester}))
}

// Withdraw takes the EvictionRequest back; where none is, that is as good.
func (p *Pressure) Withdraw(ctx context.Context, pod *snapshot.Pod) answers.Answer {
	_, err := p.Writer.Withdraw(ctx, Demand{Pod: pod, Requester: pressureRequester})
	return answers.Of(err)
}

// glassManager owns the annotation that the agent writes on a pod. It differs from other managers of Usher, so that what a
// person wrote is another's even where it was written with Usher.
const glassManager = "usher-agent"

type glassConfig struct {
	APIVersion string    `json:"apiVersion"`
	Kind       string    `json:"kind"`
	Metadata   glassMeta `json:"metadata"`
}

type glassMeta struct {
	Name        string            `json:"name"`
	Namespace   string            `json:"namespace"`
	UID         types.UID         `json:"uid"`
	Annotations map[string]string `json:"annotations"`
}

// BreakGlass writes on a pod why it goes although its policy does not let it. Without force, another's value that is there
// stays, and the answer is Conflict: it lets the pod through as well, unless it is blank.
func (p *Pressure) BreakGlass(ctx context.Context, pod *snapshot.Pod, value string, force bool) answers.Answer {
	body, err := json.Marshal(glassConfig{APIVersion: "v1", Kind: "Pod", Metadata: glassMeta{
		Name: pod.Name, Namespace: pod.Namespace, UID: pod.UID,
		Annotations: map[string]string{v1alpha1.BreakGlassAnnotation: value},
	}})
	if err != nil {
		return unsent(fmt.Errorf("writing an annotation: %w", err))
	}
	options := metav1.PatchOptions{}
	if force {
		options.Force = &force
	}
	return p.patchGlass(ctx, pod, types.ApplyYAMLPatchType, options, body)
}

type jsonPatchOp struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value string `json:"value,omitempty"`
}

// Unbreak takes the annotation back where it has that value. Another value, or none, is Rejected and stays.
func (p *Pressure) Unbreak(ctx context.Context, pod *snapshot.Pod, value string) answers.Answer {
	path := "/metadata/annotations/" + strings.ReplaceAll(v1alpha1.BreakGlassAnnotation, "/", "~1")
	body, err := json.Marshal([]jsonPatchOp{
		{Op: "test", Path: "/metadata/uid", Value: string(pod.UID)},
		{Op: "test", Path: path, Value: value},
		{Op: "remove", Path: path},
	})
	if err != nil {
		return unsent(fmt.Errorf("taking an annotation back: %w", err))
	}
	return p.patchGlass(ctx, pod, types.JSONPatchType, metav1.PatchOptions{}, body)
}

func (p *Pressure) patchGlass(ctx context.Context, pod *snapshot.Pod, kind types.PatchType, options metav1.PatchOptions, body []byte) answers.Answer {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	options.DryRun, options.FieldManager = p.Writer.dryRun(), glassManager
	return answers.Of(once(ctx, p.Writer.Client.CoreV1().RESTClient().Patch(kind).
		Namespace(pod.Namespace).Resource("pods").Name(pod.Name).
		VersionedParams(&options, scheme.ParameterCodec).Body(body)))
}

type podStatusPatch struct {
	Metadata patchMeta `json:"metadata"`
	Status   struct {
		Conditions []corev1.PodCondition `json:"conditions"`
	} `json:"status"`
}

// Disrupted writes on a pod that it is disrupted by the agent, and why; controllers that retry failed pods read that.
func (p *Pressure) Disrupted(ctx context.Context, pod *snapshot.Pod, at time.Time, why string) answers.Answer {
	what := podStatusPatch{Metadata: patchMeta{UID: pod.UID}}
	what.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue,
		Reason: disruptedByAgent, Message: why, LastTransitionTime: metav1.NewTime(at),
	}}
	body, err := json.Marshal(what)
	if err != nil {
		return unsent(fmt.Errorf("writing a condition: %w", err))
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return answers.Of(once(ctx, p.Writer.Client.CoreV1().RESTClient().Patch(types.StrategicMergePatchType).
		Namespace(pod.Namespace).Resource("pods").Name(pod.Name).SubResource("status").
		VersionedParams(&metav1.PatchOptions{FieldManager: fieldManager}, scheme.ParameterCodec).Body(body)))
}
