/* Doubly linked lists through a member, the usual circular kind. */
#ifndef SIM_LIST_H
#define SIM_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct sim_list {
	struct sim_list *prev, *next;
};

#define sim_entry(node, type, member) \
	((type *)(void *)((char *)(node)-offsetof(type, member)))

static inline void sim_list_init(struct sim_list *list)
{
	list->prev = list->next = list;
}

static inline bool sim_list_empty(const struct sim_list *list)
{
	return list->next == list;
}

static inline void sim_list_add(struct sim_list *list, struct sim_list *node)
{
	node->prev = list->prev;
	node->next = list;
	list->prev->next = node;
	list->prev = node;
}

static inline void sim_list_del(struct sim_list *node)
{
	node->prev->next = node->next;
	node->next->prev = node->prev;
	sim_list_init(node);
}

#endif
