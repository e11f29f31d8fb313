package nodepressure

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A container that the kernel has killed is started again as its restart policy says.
func TestRestartAfterOOM(t *testing.T) {
	rule := func(action corev1.ContainerRestartRuleAction, operator corev1.ContainerRestartRuleOnExitCodesOperator, code int32) corev1.ContainerRestartRule {
		return corev1.ContainerRestartRule{Action: action, ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{Operator: operator, Values: []int32{code}}}
	}
	const in, notIn = corev1.ContainerRestartRuleOnExitCodesOpIn, corev1.ContainerRestartRuleOnExitCodesOpNotIn
	const restart, restartAll = corev1.ContainerRestartRuleActionRestart, corev1.ContainerRestartRuleActionRestartAllContainers
	never := new(corev1.ContainerRestartPolicyNever)
	for name, test := range map[string]struct {
		pod   corev1.RestartPolicy
		own   *corev1.ContainerRestartPolicy
		rules []corev1.ContainerRestartRule
		want  corev1.RestartPolicy
	}{
		"the apiserver's default":         {"", nil, nil, corev1.RestartPolicyAlways},
		"always":                          {corev1.RestartPolicyAlways, nil, nil, corev1.RestartPolicyAlways},
		"on failure":                      {corev1.RestartPolicyOnFailure, nil, nil, corev1.RestartPolicyOnFailure},
		"never":                           {corev1.RestartPolicyNever, nil, nil, corev1.RestartPolicyNever},
		"the container's own":             {corev1.RestartPolicyAlways, never, nil, corev1.RestartPolicyNever},
		"a sidecar":                       {corev1.RestartPolicyNever, new(corev1.ContainerRestartPolicyAlways), nil, corev1.RestartPolicyAlways},
		"a rule for 137":                  {corev1.RestartPolicyNever, never, []corev1.ContainerRestartRule{rule(restart, in, 137)}, corev1.RestartPolicyAlways},
		"a rule for all but 1":            {corev1.RestartPolicyNever, never, []corev1.ContainerRestartRule{rule(restartAll, notIn, 1)}, corev1.RestartPolicyAlways},
		"a rule for 1":                    {corev1.RestartPolicyAlways, never, []corev1.ContainerRestartRule{rule(restart, in, 1)}, corev1.RestartPolicyNever},
		"a rule for all but 137":          {corev1.RestartPolicyAlways, never, []corev1.ContainerRestartRule{rule(restart, notIn, 137)}, corev1.RestartPolicyNever},
		"rules without a policy are none": {corev1.RestartPolicyNever, nil, []corev1.ContainerRestartRule{rule(restart, in, 137)}, corev1.RestartPolicyNever},
	} {
		t.Run(name, func(t *testing.T) {
			p := apiPod(container("a", nil, nil))
			p.Spec.RestartPolicy = test.pod
			p.Spec.Containers[0].RestartPolicy, p.Spec.Containers[0].RestartPolicyRules = test.own, test.rules
			if got := OOMScores(OOM137, Node{Memory: gi}, []Pod{PodOf(p)})[0].Restart; got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
			p.DeletionTimestamp = &metav1.Time{Time: noon}
			if got := OOMScores(OOM137, Node{Memory: gi}, []Pod{PodOf(p)})[0].Restart; got != corev1.RestartPolicyNever {
				t.Errorf("got %q while the pod is deleted", got)
			}
		})
	}
}
