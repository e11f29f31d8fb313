package all_test

import (
	"os"
	"strings"
	"testing"
)

// operatorWords are the fields, flags and conditions of FoundationDB's own operator that have to do with replacing, removing and deleting, by where they stand there.
var operatorWords = map[string][]string{
	"status.processGroups": {
		"processGroupID", "processClass", "faultDomain", "addresses", "removalTimestamp", "exclusionTimestamp", "exclusionSkipped", "processGroupConditions",
	},
	"spec.automationOptions": {
		"replacements.enabled", "replacements.faultDomainBasedReplacements", "replacements.failureDetectionTimeSeconds", "replacements.taintReplacementTimeSeconds",
		"replacements.maxConcurrentReplacements", "replacements.taintReplacementOptions", "key", "durationInSeconds", "replacements.maxFaultDomainsWithTaintedProcessGroups",
		"maxConcurrentReplacements", "deletionMode", "removalMode", "waitBetweenRemovalsSeconds", "podUpdateStrategy", "ignorePendingPodsDuration",
		"ignoreTerminatingPodsSeconds", "ignoreMissingProcessesSeconds", "failedPodDurationSeconds", "useNonBlockingExcludes", "useLocalitiesForExclusion",
		"maintenanceModeOptions.UseMaintenanceModeChecker", "maintenanceModeOptions.resetMaintenanceMode", "maintenanceModeOptions.maintenanceModeTimeSeconds",
		"cacheDatabaseStatusForReconciliation", "synchronizationMode", "databaseInteractionMode",
	},
	"spec": {
		"maxZonesWithUnavailablePods", "processGroupsToRemove", "processGroupsToRemoveWithoutExclusion", "processGroupIDPrefix", "routing.publicIPSource",
		"routing.podIPFamily", "storageServersPerPod", "logServersPerPod", "replaceInstancesWhenResourcesChange", "imageType", "processes[].podTemplate", "processes[].customParameters",
		"processes[].volumeClaimTemplate", "skip", "buggify.crashLoop", "buggify.crashLoopContainers", "buggify.emptyMonitorConf", "buggify.blockRemoval",
		"buggify.noSchedule", "buggify.ignoreDuringRestart", "lockOptions.disableLocks", "lockOptions.lockKeyPrefix", "lockOptions.lockDurationMinutes",
		"lockOptions.denyList", "labels.filterOnOwnerReferences",
	},
	"annotations": {"foundationdb.org/isolate-process-group"},
	"flags": {
		"--replace-on-security-context-change", "--minimum-recovery-time-for-exclusion", "--minimum-recovery-time-for-inclusion", "--high-run-loop-busy-threshold",
		"--maintenance-list-stale-duration", "--maintenance-list-wait-duration", "--minimum-age-for-terminal-pod-deletion", "--global-synchronization-wait-duration",
		"--cluster-label-key-for-node-trigger", "--enable-node-index", "--cli-timeout", "--max-cli-timeout",
		"--minimum-uptime-for-coordinator-change-with-undesired-process", "--minimum-uptime-for-coordinator-change-with-missing-process",
		"--enable-restart-incompatible-processes",
	},
	"conditions": {
		"MissingProcesses", "PodFailing", "MissingPod", "MissingPVC", "MissingService", "PodPending", "NodeTaintDetected", "NodeTaintReplacing",
		"ProcessIsMarkedAsExcluded", "ProcessHasIOError", "ProcessHasHighRunLoopBusy", "SidecarUnreachable", "IncorrectCommandLine", "IncorrectPodSpec",
		"IncorrectPodMetadata", "IncorrectConfigMap", "IncorrectSidecarImage", "ResourcesTerminating", "Ready",
	},
}

// TestPageNamesEveryWordOfTheOperator: who comes from FoundationDB's own operator finds each of its words, and what Usher has for it, or that it has none.
func TestPageNamesEveryWordOfTheOperator(t *testing.T) {
	text, err := os.ReadFile("../../../docs/foundationdb.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## The operator's words beside Usher's\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var theirs strings.Builder
	for line := range strings.Lines(section) {
		row, is := strings.CutPrefix(strings.TrimSpace(line), "|")
		if !is {
			continue
		}
		cells := strings.Split(strings.TrimSuffix(row, "|"), "|")
		if len(cells) != 3 || strings.TrimSpace(cells[0]) == "" || strings.TrimSpace(cells[1]) == "" {
			t.Errorf("of its three cells a row lacks one, or what is there, or what is here: %s", line)
			continue
		}
		theirs.WriteString(cells[0])
	}
	for of, words := range operatorWords {
		for _, word := range words {
			if !strings.Contains(theirs.String(), "`"+word+"`") {
				t.Errorf("%s of the operator's %s is on the left of no row", word, of)
			}
		}
	}
}
