package nodepressure

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// killed is the exit code of a process that was ended by SIGKILL, which is what the OOM killer sends.
const killed = 137

// restartOf returns the restart policy that applies to a container that the OOM killer has ended, as the kubelet of 1.37
// decides it (ContainerShouldRestart in pkg/api/v1/pod): a rule for the exit code goes before the container's own policy, and
// that before the pod's.
func restartOf(p *corev1.Pod, c *corev1.Container) corev1.RestartPolicy {
	if c.RestartPolicy != nil {
		if restartRule(c) {
			return corev1.RestartPolicyAlways
		}
		switch own := corev1.RestartPolicy(*c.RestartPolicy); own {
		case corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever:
			return own
		}
	}
	switch own := p.Spec.RestartPolicy; own {
	case corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever:
		return own
	default:
		return corev1.RestartPolicyAlways
	}
}

// restartRule reports whether the first rule that matches the exit code restarts the container, alone or with the others.
func restartRule(c *corev1.Container) bool {
	for i := range c.RestartPolicyRules {
		on := c.RestartPolicyRules[i].ExitCodes
		if on == nil {
			continue
		}
		listed := slices.Contains(on.Values, killed)
		if listed && on.Operator == corev1.ContainerRestartRuleOnExitCodesOpIn || !listed && on.Operator == corev1.ContainerRestartRuleOnExitCodesOpNotIn {
			action := c.RestartPolicyRules[i].Action
			return action == corev1.ContainerRestartRuleActionRestart || action == corev1.ContainerRestartRuleActionRestartAllContainers
		}
	}
	return false
}

// restart is Restart, but for a pod that is being deleted: nothing of it is started again.
func (c *Container) restart(p *Pod) corev1.RestartPolicy {
	if p.Terminating {
		return corev1.RestartPolicyNever
	}
	return c.Restart
}
