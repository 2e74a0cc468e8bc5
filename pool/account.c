/* Tallies and sums; see account.h. */
#include "pool/account.h"

void gp_stat_add(struct gp_stat *stat, uint64_t amount)
{
	stat->current += amount;
	stat->allocated += amount;
	if (stat->current > stat->peak)
		stat->peak = stat->current;
}

void gp_stat_sub(struct gp_stat *stat, uint64_t amount)
{
	stat->current -= amount;
	stat->freed += amount;
}

void gp_account_publish(struct gp_account *account, struct gp_tally *tally,
			const int64_t others[GP_M_NUM])
{
	for (int i = 0; i < GP_M_NUM; i++) {
		struct gp_stat *sum = &account->sum[i];
		struct gp_flow *flow = &tally->flow[i];
		int64_t level = (int64_t)sum->current + others[i] + flow->high;

		if (level > (int64_t)sum->peak)
			sum->peak = (uint64_t)level;
		sum->current += flow->added - flow->removed;
		sum->allocated += flow->added;
		sum->freed += flow->removed;
		*flow = (struct gp_flow){0};
	}
	account->deferred += tally->set_aside;
	tally->set_aside = 0;
}
