package kubernetes

import (
	"cmp"
	"embed"
	"errors"
	"io/fs"

	"usher.sh/usher/api/v1alpha1"
	"usher.sh/usher/internal/expression"
	"usher.sh/usher/internal/memberset"
	"usher.sh/usher/internal/system"
)

// Surge is the one step: a replacement is started before the pod leaves.
const Surge = "Surge"

//go:embed roles/*.yaml
var roles embed.FS

// Kind describes plain workloads.
func Kind() system.Kind {
	sub, err := fs.Sub(roles, "roles")
	if err != nil {
		sub = roles // cannot be: the name is a valid path
	}
	return system.Kind{
		Name:     "kubernetes",
		Declared: func(spec *v1alpha1.System) bool { return spec.Kubernetes != nil },
		Schema:   facts,
		Steps: map[string]string{
			Surge: "Scales the member's workload up, so that a replacement runs before the pod leaves, never past its autoscaler's maximum. " +
				"Undone by scaling back, unless another client has scaled it meanwhile.",
		},
		Roles:      sub,
		References: func(*v1alpha1.System) system.References { return system.References{Workloads: true} },
		Set:        &memberset.Kind{Name: "kubernetes"},
		Open:       open,
	}
}

func open(spec *v1alpha1.System, access system.Access) (system.System, error) {
	if access.Workloads == nil {
		return nil, errors.New("this process has no way to read workloads")
	}
	mode := cmp.Or(spec.Kubernetes.StatefulSets, v1alpha1.StatefulSetsKeep)
	return &namespace{api: access.Workloads, rules: limits{statefulSets: mode}}, nil
}

// What the fact surge says.
const (
	possible   = "Possible"
	underWay   = "UnderWay"
	waits      = "Waits"
	impossible = "Impossible"
)

var facts = expression.Schema{
	System: []expression.Field{
		{Name: "workloads", Type: expression.Int, Doc: "workloads that have a member"},
	},
	Member: []expression.Field{
		{Name: "workload", Type: expression.String, Doc: "what is scaled to start a replacement, as Kind NAME; empty if nothing is"},
		{Name: "replicas", Type: expression.Int, Doc: "replicas that its owner asked for, without those of a surge; of a MemberSet those of its group"},
		{Name: "ready", Type: expression.Bool, Doc: "the pod is ready, for minReadySeconds, and not terminating"},
		{Name: "others", Type: expression.Strings, Doc: "other ready pods of the workload, or of the group of its MemberSet, that are not terminating, on nodes that are there and ready, by their names; 64 at most"},
		{Name: "othersElsewhere", Type: expression.Strings, Doc: "those of them on nodes that are neither cordoned nor being drained"},
		{Name: "settled", Type: expression.Bool, Doc: "no rollout of the workload is under way"},
		{Name: "autoscaler", Type: expression.String, Doc: "the HorizontalPodAutoscaler that rules it; empty if none does"},
		{Name: "autoscalerMin", Type: expression.Int, Doc: "its minReplicas; absent if there is none"},
		{Name: "autoscalerMax", Type: expression.Int, Doc: "its maxReplicas; absent if there is none"},
		{Name: "budgetsHold", Type: expression.Strings, Doc: "PodDisruptionBudgets by which the eviction would be refused now, each with the cause"},
		{Name: "budgetsNever", Type: expression.Strings, Doc: "those that refuse it with as many replicas as were asked for, all of them ready"},
		{Name: "surge", Type: expression.String, Doc: "whether a replacement can be started first: Possible, UnderWay, Waits (for another client or a rollout), Impossible"},
		{Name: "surgeMessage", Type: expression.String, Doc: "what is under way, or why a surge waits or is impossible"},
		{Name: "surgeRemedy", Type: expression.String, Doc: "what a person can do about that"},
		{Name: "surgeStuck", Type: expression.Bool, Doc: "no replacement got ready within 5 minutes, and the budgets may let the pod go without: the step takes the surge back"},
		{Name: "replacementPending", Type: expression.String, Doc: "why a replacement is not scheduled, in the scheduler's words; empty if none waits for a node"},
	},
}
