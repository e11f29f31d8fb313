// Package maintenance answers: what carries NodeMaintenances out? It gathers them, the nodes and what its drains do, has package
// maintenance decide, writes statuses, and runs the drains: the loop of `usher drain`, one for each node, with budgets shared. It keeps
// nothing that the next leader could not find in the API. A process that loses the lead leaves its drains as they are.
package maintenance
